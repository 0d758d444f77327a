package cli

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	controllerclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// mounting is a training job that mounts a path of its node.
func mounting(name, path string) string {
	return training(name) + "storage: {workdirs: [{path: " + path + "}]}\n"
}

// TestHostPathPolicy applies the policy on paths of nodes: gpuctl refuses a job that mounts another path, and the API
// server refuses whoever does not ask gpuctl.
func TestHostPathPolicy(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", mounting("before", "/etc"), "create", "-f", "-")
	t.Cleanup(func() { // other tests make pods too, and a policy holds some moments longer than it is there
		_ = wait.PollUntilContextTimeout(background, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return s.dryRunPod("/etc") == nil, nil
		})
	})
	apply(t, "policy/allowed.yaml", "policy/hostpaths.yaml")

	s.expect(2, "does not allow jobs to mount /etc of the node", mounting("refused", "/etc"), "create", "-f", "-")
	s.expect(0, "", mounting("allowed", "/datasets/alpaca"), "create", "-f", "-")
	s.wantObjects(2)

	// A policy takes effect some moments after it was written.
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return apierrors.IsForbidden(s.dryRunPod("/etc")), nil
	})
	if err != nil {
		t.Fatal("a pod that mounts /etc is never refused")
	}
	for path, want := range map[string]string{
		"/": "may not mount /", "/datasets2": "may not mount /datasets2", "/datasets": "", "/datasets/": "", "/models/a/b": "",
	} {
		switch err := s.dryRunPod(path); {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", path, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want an error with %q", path, err, want)
		}
	}
}

// dryRunPod asks the API server whether it would take a pod that mounts a path of its node from a controller.
func (s *session) dryRunPod(path string) error {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:job-controller"}
	controller, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "by-hand-"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "busybox"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path},
			}}},
		},
	}
	_, err = controller.CoreV1().Pods(s.namespace).Create(background, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// TestTypesInAliasLabels checks that a job finds nodes whose GPU type no label of ours tells.
func TestTypesInAliasLabels(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"alias-only": {names.LabelNVIDIAProduct: "Alias-T4"},
		"labelled":   {names.LabelNVIDIAProduct: "Ours-T4", names.LabelGPUType: "Ours-T4"},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(background, name, metav1.DeleteOptions{}) })
	}
	s := newSession(t)
	for gpuType, want := range map[string]string{"Alias-T4": "Alias-T4", "Ours-T4": ""} {
		job := strings.ToLower(gpuType)
		s.expect(0, "", training(job)+"  gpu-type: "+gpuType+"\n", "create", "-f", "-")
		created, err := client.BatchV1().Jobs(s.namespace).Get(t.Context(), job, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod := created.Spec.Template
		if got := pod.Annotations[names.AnnotationGPUTypes]; got != want {
			t.Errorf("%s: the annotation lists %q, want %q", gpuType, got, want)
		}
		if _, selected := pod.Spec.NodeSelector[names.LabelGPUType]; selected == (want != "") {
			t.Errorf("%s: the node selector is %v", gpuType, pod.Spec.NodeSelector)
		}
	}
}

// apply creates the objects of files of the manifests, and deletes them after the test.
func apply(t *testing.T, files ...string) {
	t.Helper()
	api, err := controllerclient.New(admin, controllerclient.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := fs.ReadFile(manifests.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatal(err)
			}
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = api.Delete(background, object) })
		}
	}
}
