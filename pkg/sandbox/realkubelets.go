package sandbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// kubeletClient is the API server's user name with kubelets. They ask the API server itself about its rights, and administrators have all.
const kubeletClient = "kube-apiserver-kubelet-client"

// certificateLife is as long as that of envtest's own certificates.
const certificateLife = 7 * 24 * time.Hour

// KubeletClientCA returns the path of the certificate by which kubelets know the API server. It is there with
// [Options.RealKubelets].
func (s *Sandbox) KubeletClientCA() string {
	return filepath.Join(s.dir, "certs", kubeletClient+".crt")
}

// prepareForKubelets sets what the API server needs to work with real kubelets.
func (s *Sandbox) prepareForKubelets(args *envtest.Arguments) error {
	certificate, key, err := clientCertificate(kubeletClient, groupMasters, time.Now())
	if err != nil {
		return fmt.Errorf("making the API server's certificate for kubelets: %w", err)
	}
	keyPath := filepath.Join(s.dir, "certs", kubeletClient+".key")
	if err := writeFile(s.KubeletClientCA(), certificate); err != nil {
		return err
	}
	if err := writeFile(keyPath, key); err != nil {
		return err
	}
	args.
		Set("authorization-mode", "Node", "RBAC").
		Set("enable-admission-plugins", "NodeRestriction").
		Set("kubelet-client-certificate", s.KubeletClientCA()).
		Set("kubelet-client-key", keyPath)
	return nil
}

// clientCertificate makes a certificate for a client and its key, both as PEM. It is its own authority: a server that verifies it trusts only it.
func clientCertificate(user, group string, now time.Time) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: user, Organization: []string{group}},
		NotBefore:    now.Add(-time.Minute), NotAfter: now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("signing: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), nil
}
