package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/test/stand"
)

// TestEveryProgramStartsAsItsManifestSays runs the programs with the command lines, the files, the environment and the account
// that the chart installs, and asks all their probes. The agent needs a kubelet: test/node runs it by its manifest.
func TestEveryProgramStartsAsItsManifestSays(t *testing.T) {
	values := []string{"--namespace", metav1.NamespaceSystem, "--set", "server.tls.create=true", "--set", "ledger.tls.create=true"}
	for _, value := range everything {
		values = append(values, "--set", value)
	}
	run(t, append([]string{"install", "g8s", chart}, values...)...)
	t.Cleanup(func() { // the test's context has ended
		ctx := context.WithoutCancel(t.Context())
		if _, err := helmUntil(ctx, t, "uninstall", "g8s", "--namespace", metav1.NamespaceSystem); err != nil {
			t.Error(err)
		}
		removeLeftovers(ctx, t)
	})
	all := template(t, everything...)
	tests := map[string]struct {
		workload string
		// lease is what the program takes when it leads; "" where none leads.
		lease string
	}{
		"gpu-scheduler":  {schedulerKey, "gpu-scheduler"},
		"gpu-controller": {"Deployment kube-system/gpu-controller", "gpu-controller"},
		"gpuctl-server":  {serverKey, ""},
		"gpu-ledger":     {ledgerKey, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec, _ := at(t, all, tc.workload, "spec/template/spec").(map[string]any)
			var pod corev1.PodSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod); err != nil {
				t.Fatal(err)
			}
			namespace := all[tc.workload].GetNamespace()
			program := stand.New(t, cluster, client, namespace, pod)
			program.Start(filepath.Dir(tools), name+"-of-the-chart")
			defer func() {
				if err := program.Stop(); err != nil {
					t.Error(err)
				}
			}()
			if probes := program.Probe(); probes < 2 {
				t.Errorf("the manifest has %d probes", probes)
			}
			if tc.lease != "" {
				leads(t, namespace, tc.lease)
			}
			log, err := os.ReadFile(program.LogPath())
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(log)) {
				if strings.Contains(strings.ToLower(line), "forbidden") {
					t.Errorf("it lacks a right: %s", line)
				}
			}
		})
	}
}

// leads waits until the program has its lease: until then it has shown no right but those of its probes.
func leads(t *testing.T, namespace, lease string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		found, err := client.CoordinationV1().Leases(namespace).Get(ctx, lease, metav1.GetOptions{})
		return err == nil && found.Spec.HolderIdentity != nil && *found.Spec.HolderIdentity != "", nil
	})
	if err != nil {
		t.Errorf("it does not lead: %v", err)
	}
}
