package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

// S3Server is a running S3 server as its clients need to know it.
type S3Server struct {
	Endpoint  string `json:"endpoint"`
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Region    string `json:"region"`
	PID       int    `json:"pid"`
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// S3Up starts an S3 server without a cluster. It needs no root. Port 0 takes a free one.
func S3Up(cluster layout.Cluster, program string, port int, buckets []string) (S3Server, error) {
	m := machine{cluster, "s3"}
	if err := m.stop(unix.SIGTERM); err != nil {
		return S3Server{}, err
	}
	if err := claim(cluster); err != nil {
		return S3Server{}, err
	}
	self, err := Self()
	if err != nil {
		return S3Server{}, err
	}
	listener, address, err := listenOnLoopback(port)
	if err != nil {
		return S3Server{}, err
	}
	defer listener.Close()
	// The port is held by the supervisor from the start; the server listens where no two can meet.
	suffix := make([]byte, 8)
	if _, err := rand.Read(suffix); err != nil {
		return S3Server{}, err
	}
	socket := "e2e-s3-" + hex.EncodeToString(suffix)
	unit, err := s3Unit(cluster, program, "@"+socket, buckets)
	if err != nil {
		return S3Server{}, err
	}
	stack := supervisor.Stack{
		StoppedDir: cluster.Path("run", "s3.stopped"), Units: []supervisor.Unit{unit},
		Forwards: []supervisor.Forward{{FileDescriptor: 3, To: "@" + socket}},
	}
	record, gun, err := m.start(self, stack, 0, []*os.File{listener}, "supervise")
	if err != nil {
		return S3Server{}, err
	}
	if err := gun.Close(); err != nil {
		return S3Server{}, err
	}
	if err := m.wait("the S3 server", 20*time.Second, reachable("abstract://"+socket)); err != nil {
		_ = m.stop(unix.SIGKILL)
		return S3Server{}, err
	}
	return S3Server{
		Endpoint: "http://" + address, AccessKey: layout.S3AccessKey, SecretKey: layout.S3SecretKey,
		Region: layout.S3Region, PID: record.PID,
	}, nil
}

// S3Down stops the S3 server and removes what it stored.
func S3Down(cluster layout.Cluster) error {
	if err := (machine{cluster, "s3"}).stop(unix.SIGTERM); err != nil {
		return err
	}
	return removeFiles(cluster)
}

// s3Unit is the S3 server over a directory. A bucket is a directory below it.
func s3Unit(cluster layout.Cluster, program, address string, buckets []string) (supervisor.Unit, error) {
	if _, err := os.Stat(program); err != nil {
		return supervisor.Unit{}, fmt.Errorf("the S3 server %s is missing: `make build/bin/versitygw` builds it", program)
	}
	store := cluster.Path("s3", "buckets")
	for _, bucket := range buckets {
		if !bucketName.MatchString(bucket) {
			return supervisor.Unit{}, fmt.Errorf("%q is no bucket name: 3 to 63 lower-case letters, digits, dots, dashes", bucket)
		}
		if err := os.MkdirAll(filepath.Join(store, bucket), 0o755); err != nil {
			return supervisor.Unit{}, err
		}
	}
	if err := os.MkdirAll(store, 0o755); err != nil {
		return supervisor.Unit{}, err
	}
	args := []string{
		program, "--access", layout.S3AccessKey, "--secret", layout.S3SecretKey, "--region", layout.S3Region,
		"--port", address, "--quiet", "posix",
	}
	if !keepsAttributes(store) {
		sidecar := cluster.Path("s3", "attributes")
		if err := os.MkdirAll(sidecar, 0o755); err != nil {
			return supervisor.Unit{}, err
		}
		args = append(args, "--sidecar", sidecar)
	}
	return supervisor.Unit{Name: "s3", Args: append(args, store), Log: cluster.Log("s3")}, nil
}

// keepsAttributes tells whether the file system has extended attributes, where the server keeps what S3 knows of an
// object beside its bytes.
func keepsAttributes(directory string) bool {
	return unix.Setxattr(directory, "user.e2e-probe", []byte("1"), 0) == nil &&
		unix.Removexattr(directory, "user.e2e-probe") == nil
}
