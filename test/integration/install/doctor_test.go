package install

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/pkg/doctor"
)

// examined is what gpuctl doctor --install says, by check.
func examined(t *testing.T, client kubernetes.Interface) map[string]doctor.Check {
	t.Helper()
	found, err := doctor.ReadInstallation(t.Context(), client, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]doctor.Check{}
	for _, check := range doctor.ExamineInstallation(found) {
		checks[check.Name] = check
	}
	return checks
}

func expect(t *testing.T, client kubernetes.Interface, want map[string]doctor.Status) {
	t.Helper()
	got := examined(t, client)
	for name, status := range want {
		if got[name].Status != status {
			t.Errorf("%s: got %+v, want %s", name, got[name], status)
		}
	}
}

// whatTheClusterHas is well before and after.
var whatTheClusterHas = map[string]doctor.Status{
	"Kubernetes": doctor.OK, "policies' API": doctor.OK, "resource claims' API": doctor.OK, "your rights to install": doctor.OK,
	"namespaces": doctor.OK, "versions": doctor.OK, "leftovers": doctor.OK,
}

// TestTheDoctorOfWhoMayNothing says what it may not see, and is no error.
func TestTheDoctorOfWhoMayNothing(t *testing.T) {
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceDefault, "default")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, kubernetes.NewForConfigOrDie(config), map[string]doctor.Status{
		"Kubernetes": doctor.OK, "your rights to install": doctor.Failed, "namespaces": doctor.Unknown, "CRDs": doctor.Unknown,
		"policies": doctor.Unknown, "gpu-scheduler": doctor.Unknown, "gpuctl-server": doctor.Unknown,
	})
}
