// Package pki makes the certificates, keys and tokens of a throw-away cluster. They live as long as its directory.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const lifetime = 365 * 24 * time.Hour

// Authority signs the cluster's certificates.
type Authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes a certificate authority and writes ca.crt and ca.key.
func NewAuthority(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: "e2e-cluster"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, err := writeKey(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	authority := &Authority{dir: dir, certificate: template, key: key}
	if authority.certificate, err = authority.sign("ca", template, key.Public()); err != nil {
		return nil, err
	}
	return authority, nil
}

// Server writes NAME.crt and NAME.key of a server known by the names and addresses.
func (a *Authority) Server(name string, hosts []string) error {
	template := newTemplate(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(name, template)
}

// Client writes NAME.crt and NAME.key of a user in one group.
func (a *Authority) Client(name, user, group string) error {
	template := newTemplate(pkix.Name{CommonName: user, Organization: []string{group}})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(name, template)
}

// SigningKey writes NAME.key, a key that needs no certificate.
func (a *Authority) SigningKey(name string) error {
	_, err := writeKey(filepath.Join(a.dir, name+".key"))
	return err
}

// User is somebody who shows a bearer token to the API server.
type User struct {
	Name, Group, Token string
}

// NewUser makes a user with a random token; an empty group means none.
func NewUser(name, group string) (User, error) {
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return User{}, err
	}
	return User{Name: name, Group: group, Token: hex.EncodeToString(token)}, nil
}

// TokenFile renders the users as the API server's --token-auth-file.
func TokenFile(users []User) string {
	var lines strings.Builder
	for _, user := range users {
		fmt.Fprintf(&lines, "%s,%s,%s,%q\n", user.Token, user.Name, user.Name, user.Group)
	}
	return lines.String()
}

func (a *Authority) issue(name string, template *x509.Certificate) error {
	key, err := writeKey(filepath.Join(a.dir, name+".key"))
	if err != nil {
		return err
	}
	_, err = a.sign(name, template, key.Public())
	return err
}

func (a *Authority) sign(name string, template *x509.Certificate, public crypto.PublicKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign the certificate %q: %w", name, err)
	}
	if err := writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
