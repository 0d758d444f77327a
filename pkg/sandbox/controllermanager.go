package sandbox

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const nameControllerManager = "kube-controller-manager"

// controllers are those that workloads and nodes depend on here. The others wait for a cloud, for disks to attach or for certificates of kubelets,
// and only take time.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"disruption-controller",
	"endpoints-controller",
	"endpointslice-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"resourceclaim-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"statefulset-controller",
	"taint-eviction-controller",
	"ttl-after-finished-controller",
}

// startControllerManager starts kube-controller-manager and waits until it works: the default namespace has
// its service account, without which pods are refused.
func (s *Sandbox) startControllerManager(ctx context.Context) error {
	kubeconfig, err := s.componentKubeconfig(nameControllerManager)
	if err != nil {
		return err
	}
	port, err := FreePort("127.0.0.1")
	if err != nil {
		return err
	}
	_, err = s.StartProcess(ctx, ProcessSpec{
		Name:  nameControllerManager,
		Path:  filepath.Join(s.options.BinDir, nameControllerManager),
		Args:  s.controllerManagerArgs(kubeconfig, port),
		Port:  port,
		Ready: HTTPReady(fmt.Sprintf("https://127.0.0.1:%d/healthz", port)),
	})
	if err != nil {
		return err
	}
	if err := s.waitForServiceAccount(ctx, metav1.NamespaceDefault, "default"); err != nil {
		return err
	}
	s.ReportProgress("kube-controller-manager is ready")
	return nil
}

// controllerManagerArgs raise the client's limits and the workers: with the default of 20 requests a second,
// 1,000 pods take a minute to create.
func (s *Sandbox) controllerManagerArgs(kubeconfig string, port int) []string {
	certs := filepath.Join(s.dir, "certs")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(certs, nameControllerManager),
		"--service-account-private-key-file=" + filepath.Join(certs, "sa-signer.key"),
		"--root-ca-file=" + s.caPath(),
		// Each controller acts under its own identity, as in a real cluster: policies and roles hold for it.
		"--use-service-account-credentials=true",
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
		"--concurrent-job-syncs=20",
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		"--concurrent-gc-syncs=20",
		"--concurrent-namespace-syncs=20",
		"--profiling=false",
	}
}

// waitForServiceAccount waits until the controllers have created an account, or one of them has crashed.
func (s *Sandbox) waitForServiceAccount(ctx context.Context, namespace, name string) error {
	client, err := s.newClient()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, readyPoll, defaultReadyTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for service account %s/%s: %w", namespace, name, err)
	}
	return nil
}

// HTTPReady returns a check that asks a URL for status 200. Certificates are not verified: they are the
// components' self-signed ones.
func HTTPReady(url string) func(context.Context) error {
	client := &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true,
		},
	}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("asking %s: %w", url, err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err // names the method and the URL
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("asking %s: %s", url, resp.Status)
		}
		return nil
	}
}
