// Package apiclient asks the API server the few questions the orchestration has, without a client library: building
// one would make the pure packages as slow to build as the components.
package apiclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const pollInterval = 100 * time.Millisecond

// Client talks to one API server as one user.
type Client struct {
	server, token string
	http          *http.Client
}

type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server    string `json:"server"`
			Authority string `json:"certificate-authority"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Token string `json:"token"`
		} `json:"user"`
	} `json:"users"`
}

// New reads a kubeconfig this program wrote.
func New(path string) (*Client, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var parsed kubeconfig
	if err := yaml.Unmarshal(body, &parsed); err != nil || len(parsed.Clusters) == 0 || len(parsed.Users) == 0 {
		return nil, fmt.Errorf("%s is no kubeconfig of this program", path)
	}
	authority, err := os.ReadFile(parsed.Clusters[0].Cluster.Authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &Client{
		server: parsed.Clusters[0].Cluster.Server, token: parsed.Users[0].User.Token,
		http: &http.Client{
			Timeout:   5 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Proxy: nil},
		},
	}, nil
}

// Server is the API server's address.
func (c *Client) Server() string { return c.server }

// Get returns the body of a successful answer.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, strings.TrimSpace(string(body)))
	}
	return body, err
}

// Wait returns when the path exists.
func (c *Client) Wait(ctx context.Context, path string) error {
	return poll(ctx, "GET "+path, func() (bool, error) {
		_, err := c.Get(ctx, path)
		return err == nil, err
	})
}

// NodeReadiness tells for each registered node whether it is Ready.
func (c *Client) NodeReadiness(ctx context.Context) (map[string]bool, error) {
	body, err := c.Get(ctx, "/api/v1/nodes")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	readiness := map[string]bool{}
	for _, item := range list.Items {
		readiness[item.Metadata.Name] = false
		for _, condition := range item.Status.Conditions {
			if condition.Type == "Ready" {
				readiness[item.Metadata.Name] = condition.Status == "True"
			}
		}
	}
	return readiness, nil
}

// WaitNode returns when the node is Ready, or not Ready if so asked.
func (c *Client) WaitNode(ctx context.Context, name string, wanted bool) error {
	return poll(ctx, fmt.Sprintf("node %s to have Ready=%t", name, wanted), func() (bool, error) {
		readiness, err := c.NodeReadiness(ctx)
		ready, registered := readiness[name]
		return err == nil && registered && ready == wanted, err
	})
}

func poll(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for %s (last: %v)", what, err)
		case <-time.After(pollInterval):
		}
	}
}
