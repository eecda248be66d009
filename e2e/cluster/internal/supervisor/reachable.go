package supervisor

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"
)

const probeInterval = 50 * time.Millisecond

// probeClient trusts any certificate: what is asked is whether somebody answers, and nothing is sent that is secret.
var probeClient = &http.Client{
	Timeout:   2 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// WaitReachable returns when the address answers or the context ends. `unix:///path`, `abstract://name` and `tcp://host:port` answer when
// a connection is accepted, `http://` and `https://` when the status is 200.
func WaitReachable(ctx context.Context, address string) error {
	for !reachable(ctx, address) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probeInterval):
		}
	}
	return nil
}

func reachable(ctx context.Context, address string) bool {
	target, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch target.Scheme {
	case "unix":
		return accepts(ctx, "unix", target.Path)
	case "abstract":
		return accepts(ctx, "unix", "@"+target.Host)
	case "tcp":
		return accepts(ctx, "tcp", target.Host)
	default:
		return answersOK(ctx, address)
	}
}

func accepts(ctx context.Context, network, address string) bool {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	connection, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	return connection.Close() == nil
}

func answersOK(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
