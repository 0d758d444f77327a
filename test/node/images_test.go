package node

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// importImage gives the node an image of the manifests, as `make node-images` has made it.
func importImage(t *testing.T, name string) {
	t.Helper()
	archive, err := filepath.Abs(filepath.Join("../../bin/node-images", name+".tar"))
	if err == nil {
		_, err = os.Stat(archive)
	}
	if err != nil {
		t.Fatalf("finding the image (run \"make node-images\" in the repository): %v", err)
	}
	if err := bed.ImportArchive(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}

// TestTheImagesRunAsTheirManifestsSay has kubelet and containerd run what is released: by the image's user and entrypoint, with
// the account, the files, the restrictions and the probes of the manifests. What differs is where the API server is, that there
// is one pod, which asks for less of this machine, and that no other scheduler than ours is there to place it.
func TestTheImagesRunAsTheirManifestsSay(t *testing.T) {
	needTime(t)
	tests := map[string]struct {
		kind, namespace string
		install         func(context.Context) error
		prepare         func(*testing.T)
	}{
		// The process that places the pods of this test leads: the pod stands by.
		g8s.SchedulerName:      {kind: "deployment", namespace: metav1.NamespaceSystem},
		sandbox.ControllerName: {kind: "deployment", namespace: metav1.NamespaceSystem, install: cluster.InstallController},
		sandbox.ServerName:     {kind: "deployment", namespace: sandbox.ServerNamespace, install: cluster.InstallServer, prepare: serverSecret},
		sandbox.LedgerName:     {kind: "statefulset", namespace: metav1.NamespaceSystem, install: cluster.InstallLedger, prepare: ledgerVolume},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.install != nil {
				if err := tc.install(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if tc.prepare != nil {
				tc.prepare(t)
			}
			importImage(t, name)
			p := program{name: name, kind: tc.kind, namespace: tc.namespace}
			p.run(t)
			t.Cleanup(func() {
				ctx := context.WithoutCancel(ctx)
				if _, err := cluster.RunKubectl(ctx, "-n", p.namespace, "scale", p.kind, p.name, "--replicas=0"); err != nil {
					t.Error(err)
				}
				eventually(t, "its pod to end", func(ctx context.Context) bool { return p.pod(ctx) == nil })
			})
			defer func() {
				if pod := p.pod(ctx); t.Failed() && pod != nil {
					t.Log(whyNot(pod))
				}
			}()
			eventually(t, "its pod to be ready", func(ctx context.Context) bool {
				pod := p.pod(ctx)
				return pod != nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
			})
			if pod := p.pod(ctx); pod == nil || pod.Status.ContainerStatuses[0].RestartCount > 0 {
				t.Errorf("its pod is %+v", pod)
			}
		})
	}
}

// program is one of ours that runs as pods.
type program struct{ name, kind, namespace string }

// run has it run as one pod, here.
func (p program) run(t *testing.T) {
	t.Helper()
	server, err := url.Parse(cluster.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	small := map[string]any{"cpu": resource.MustParse("10m"), "memory": resource.MustParse("64Mi")}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": 1, "template": map[string]any{"spec": map[string]any{
		"hostNetwork": true, "schedulerName": g8s.SchedulerName, "nodeSelector": map[string]any{corev1.LabelHostname: bed.Name},
		"containers": []any{map[string]any{
			"name": p.name, "imagePullPolicy": corev1.PullNever, "resources": map[string]any{"requests": small},
			"env": []any{
				map[string]string{"name": "KUBERNETES_SERVICE_HOST", "value": server.Hostname()},
				map[string]string{"name": "KUBERNETES_SERVICE_PORT", "value": server.Port()},
			},
		}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	apps := client.AppsV1()
	if p.kind == "statefulset" {
		_, err = apps.StatefulSets(p.namespace).Patch(t.Context(), p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = apps.Deployments(p.namespace).Patch(t.Context(), p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p program) pod(ctx context.Context) *corev1.Pod {
	list, err := client.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + p.name})
	if err != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func serverSecret(t *testing.T) {
	t.Helper()
	certificate(t, sandbox.ServerNamespace, sandbox.ServerName+"-tls")
	// The pods of this test are in the network of the node, which Pod Security does not let them here.
	_, err := cluster.RunKubectl(t.Context(), "label", "--overwrite", "namespace", sandbox.ServerNamespace,
		"pod-security.kubernetes.io/enforce=privileged", g8s.LabelPolicy+"="+g8s.PolicyExempt)
	if err != nil {
		t.Fatal(err)
	}
}

// ledgerVolume makes the volume that a cluster's provisioner would.
func ledgerVolume(t *testing.T) {
	t.Helper()
	certificate(t, metav1.NamespaceSystem, sandbox.LedgerName+"-tls")
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil { // the pod is nobody, and such volumes know no fsGroup
		t.Fatal(err)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: sandbox.LedgerName},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder}},
		},
	}
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func certificate(t *testing.T, namespace, name string) {
	t.Helper()
	public, private, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: public, corev1.TLSPrivateKeyKey: private},
	}
	_, err = client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}
