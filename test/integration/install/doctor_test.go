package install

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
		"policies": doctor.Unknown, "gpu-scheduler": doctor.Unknown, "gpuctl-server": doctor.Unknown, "cards": doctor.Unknown,
	})
}

// TestTheDoctorOfCards finds two device plugins that are for one node, also while no pod of theirs runs.
func TestTheDoctorOfCards(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "with-cards", Labels: map[string]string{"nvidia.com/gpu.present": "true"}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) }) // the cluster ends anyway
	var status doctor.Status
	for _, name := range []string{"nvidia-device-plugin", "nvidia-device-plugin-of-another"} {
		labels := map[string]string{"app": name}
		plugin := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "plugin", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"}},
					Volumes: []corev1.Volume{{Name: "plugins", VolumeSource: corev1.VolumeSource{
						HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/device-plugins"}}}},
				},
			}},
		}
		daemons := client.AppsV1().DaemonSets(plugin.Namespace)
		if _, err := daemons.Create(t.Context(), plugin, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = daemons.Delete(context.Background(), name, metav1.DeleteOptions{}) }) // the cluster ends anyway
		status = examined(t, client)["cards"].Status
		if name == "nvidia-device-plugin" && status != doctor.OK {
			t.Errorf("of one plugin: %+v", examined(t, client)["cards"])
		}
	}
	if status != doctor.Failed {
		t.Errorf("of two plugins: %+v", examined(t, client)["cards"])
	}
}
