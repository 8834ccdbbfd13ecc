package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// user is somebody whom the API server knows by a token.
type user struct {
	name   string // to Kubernetes
	groups string // comma list
	file   string // of the kubeconfig, in the sandbox's folder
}

var (
	admin     = user{"sandbox-admin", "system:masters", "kubeconfig"}
	manager   = user{"system:kube-controller-manager", "", "kube-controller-manager.kubeconfig"}
	scheduler = user{"system:kube-scheduler", "", "kube-scheduler.kubeconfig"}
	kwok      = user{"kwok-controller", "", "kwok.kubeconfig"}
	operator  = user{"kuberay-operator", "", "kuberay-operator.kubeconfig"}
	// The service account that the product's manifests bind their roles to, so that RBAC is tested as deployed.
	portal = user{"system:serviceaccount:rayslice:rayslice", "system:serviceaccounts,system:serviceaccounts:rayslice", "portal.kubeconfig"}
	users  = []user{admin, manager, scheduler, kwok, operator, portal}
)

// identity is the folder of the sandbox's own authority: certificates, the service accounts' key and the users' tokens.
type identity string

func (i identity) file(name string) string { return filepath.Join(string(i), name) }

// ensure creates what is missing. Everything is written together, so half an authority does not exist.
func (i identity) ensure() error {
	if _, err := os.Stat(string(i)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	part := identity(string(i) + ".part")
	if err := errors.Join(os.RemoveAll(string(part)), os.MkdirAll(string(part), 0o700)); err != nil {
		return err
	}
	if err := errors.Join(part.createCertificates(), part.createAccountKey(), part.createTokens()); err != nil {
		return fmt.Errorf("create the sandbox's certificates: %w", err)
	}
	return os.Rename(string(part), string(i))
}

// createCertificates makes an authority and one certificate for every server here; etcd also takes it as a client's.
func (i identity) createCertificates() error {
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "rayslice sandbox authority"},
		NotBefore:             now.Add(-time.Hour), // clocks that were set back
		NotAfter:              now.AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "rayslice sandbox"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	authorityKey, err := i.certify("ca", authority, authority, nil)
	if err != nil {
		return err
	}
	_, err = i.certify("server", server, authority, authorityKey)
	return err
}

// certify writes <name>.key and <name>.crt, signed by the issuer, or by itself without an issuer's key.
func (i identity) certify(name string, certificate, issuer *x509.Certificate, issuerKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := i.createKey(name + ".key")
	if err != nil {
		return nil, err
	}
	if issuerKey == nil {
		issuerKey = key
	}
	signed, err := x509.CreateCertificate(rand.Reader, certificate, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		return nil, err
	}
	return key, i.writePEM(name+".crt", "CERTIFICATE", signed)
}

func (i identity) createAccountKey() error {
	key, err := i.createKey("accounts.key")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return i.writePEM("accounts.pub", "PUBLIC KEY", public)
}

func (i identity) createKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, i.writePEM(name, "EC PRIVATE KEY", private)
}

func (i identity) writePEM(name, kind string, content []byte) error {
	return os.WriteFile(i.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}

// createTokens writes the API server's token file: token, name, id and groups per line.
func (i identity) createTokens() error {
	var lines strings.Builder
	for _, user := range users {
		fmt.Fprintf(&lines, "%s,%s,%s,%q\n", secret(), user.name, user.name, user.groups)
	}
	return os.WriteFile(i.file("tokens.csv"), []byte(lines.String()), 0o600)
}

// secret is a random password or token of 128 bits.
func secret() string {
	random := make([]byte, 16)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// writeKubeconfigs writes every user's kubeconfig into the folder, for the API server at the address.
func (i identity) writeKubeconfigs(dir, address string) error {
	tokens, err := os.ReadFile(i.file("tokens.csv"))
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(i.file("ca.crt"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(tokens)) {
		fields := strings.SplitN(line, ",", 3)
		for _, user := range users {
			if fields[1] != user.name {
				continue
			}
			content, err := clientcmd.Write(kubeconfig(user.name, fields[0], address, authority))
			if err != nil {
				return err
			}
			if err := writeFile(filepath.Join(dir, user.file), content); err != nil {
				return err
			}
		}
	}
	return nil
}

func kubeconfig(name, token, address string, authority []byte) api.Config {
	config := *api.NewConfig()
	config.Clusters["sandbox"] = &api.Cluster{Server: address, CertificateAuthorityData: authority}
	config.AuthInfos[name] = &api.AuthInfo{Token: token}
	config.Contexts["sandbox"] = &api.Context{Cluster: "sandbox", AuthInfo: name}
	config.CurrentContext = "sandbox"
	return config
}
