package doctor

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

// TestOnlyWhatIsInstalledIsBelieved has users run workloads with our names and labels in namespaces of their own, before and after
// ours in the order of lists.
func TestOnlyWhatIsInstalledIsBelieved(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "g8s"}}
	}
	pod := func(config string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: "r/" + config + ":v1"}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configPrefix + config}},
			}}},
		}}
	}
	of := func(namespace, name, config string) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: meta(namespace, name), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Template: pod(config)}}
	}
	client := fake.NewClientset(
		of("a-user", "gpu-scheduler", "theirs"), of("kube-system", "gpu-scheduler", "live"), of("z-user", "gpu-scheduler", "theirs"),
		of("z-user", "gpuctl-server", "theirs"), of("elsewhere", "gpuctl-server", "moved"),
		of("kube-system", "gpu-ledger", "no-stateful-set"),
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "g8s:gpuctl-server"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "gpuctl-server", Namespace: "elsewhere"}},
		},
	)
	var f Installation
	var unread []string
	if err := f.readWorkloads(t.Context(), client, &unread); err != nil || unread != nil {
		t.Fatal(err, unread)
	}
	if f.Mounted != configPrefix+"live" {
		t.Errorf("the scheduler is believed to mount %q: doctor would have the live configuration deleted", f.Mounted)
	}
	found := map[string]string{}
	for _, w := range f.Workloads {
		found[w.Namespace+"/"+w.Name] = w.Image
	}
	if len(found) != 2 || found["kube-system/gpu-scheduler"] == "" || found["elsewhere/gpuctl-server"] == "" {
		t.Errorf("believed %v", found)
	}
}
