package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func TestAServerCertificateVerifiesForEachOfItsNames(t *testing.T) {
	dir := t.TempDir()
	authority, err := NewAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.Server("server", []string{"kubernetes", "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := x509.ParseCertificate(pair.Certificate[0])
	roots := x509.NewCertPool()
	ca, _ := os.ReadFile(filepath.Join(dir, "ca.crt"))
	roots.AppendCertsFromPEM(ca)
	for _, name := range []string{"kubernetes", "127.0.0.1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheTokenFileHasOneLinePerUser(t *testing.T) {
	got := TokenFile([]User{{Name: "admin", Group: "system:masters", Token: "t1"}, {Name: "dns", Token: "t2"}})
	want := "t1,admin,admin,\"system:masters\"\nt2,dns,dns,\"\"\n"
	if got != want {
		t.Fatalf("want %q, got %q", want, got)
	}
}
