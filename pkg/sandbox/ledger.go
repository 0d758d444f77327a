package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/ledger"
)

// LedgerName is the name of the ledger's process, of its binary, of its StatefulSet and of its service account in the
// manifests.
const LedgerName = "gpu-ledger"

// addressFolder has the manifests that publish the ledger's address to users.
const addressFolder = "ledger/address"

var ledgerComponent = component{name: LedgerName, namespace: metav1.NamespaceSystem, stateful: true, folders: []string{"ledger"}}

// LedgerOptions say which gpu-ledger to run. The zero value is the one built beside the tools, on a free port.
type LedgerOptions struct {
	// Binary is the program. Default: gpu-ledger in the folder above the tools.
	Binary string
	// Port is where it listens on 127.0.0.1; 0 is a free one.
	Port int
	// Args are more flags.
	Args []string
}

// Ledger is a running gpu-ledger.
type Ledger struct {
	*Process
	// URL is where it answers, and CAFile what its certificate is verified with.
	URL, CAFile string
}

// InstallLedger applies manifests/ledger, for StartLedger.
func (s *Sandbox) InstallLedger(ctx context.Context) error {
	return s.installComponent(ctx, ledgerComponent)
}

// StartLedger runs gpu-ledger as the service account of the manifests, which InstallLedger has created, and waits until it answers. Its file belongs
// to the sandbox: a restarted ledger continues it.
func (s *Sandbox) StartLedger(ctx context.Context, o LedgerOptions) (*Ledger, error) {
	program, err := s.prepareComponent(ctx, ledgerComponent, o.Binary)
	if err != nil {
		return nil, err
	}
	port, err := portOr(o.Port)
	if err != nil {
		return nil, err
	}
	certFile, keyFile, err := s.serverCertificate()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, LedgerName)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("making the ledger's directory: %w", err)
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	p, err := s.StartProcess(ctx, ProcessSpec{
		Name: LedgerName, Path: program.binary, Port: port,
		Args: append([]string{
			"--kubeconfig=" + program.kubeconfig,
			"--data-dir=" + data,
			"--listen=127.0.0.1:" + strconv.Itoa(port),
			"--tls-cert-file=" + certFile,
			"--tls-key-file=" + keyFile,
		}, o.Args...),
		Ready: HTTPReady(url + "/healthz"),
	})
	if err != nil {
		return nil, err
	}
	s.ReportProgress("%s is ready at %s", LedgerName, url)
	return &Ledger{Process: p, URL: url, CAFile: certFile}, nil
}

// AnnounceLedger applies manifests/ledger/address with the address of a running ledger, so that gpuctl finds it.
func (s *Sandbox) AnnounceLedger(ctx context.Context, l *Ledger) error {
	if err := s.ApplyManifests(ctx, manifests.FS, addressFolder); err != nil {
		return err
	}
	ca, err := os.ReadFile(l.CAFile)
	if err != nil {
		return fmt.Errorf("reading the ledger's certificate: %w", err)
	}
	client, err := s.newClient()
	if err != nil {
		return err
	}
	told := applycorev1.ConfigMap(ledger.AddressConfigMap, ledger.AddressNamespace).
		WithData(map[string]string{ledger.KeyURL: l.URL, ledger.KeyCA: string(ca)})
	_, err = client.CoreV1().ConfigMaps(ledger.AddressNamespace).Apply(ctx, told, metav1.ApplyOptions{FieldManager: "gpu-sandbox", Force: true})
	if err != nil {
		return fmt.Errorf("saying where the ledger is: %w", err)
	}
	return nil
}
