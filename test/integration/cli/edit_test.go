package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// editor makes a command the user's editor, and returns the folder in which its files are.
func (s *session) editor(command string) string {
	s.Helper()
	folder := s.TempDir()
	s.Setenv("TMPDIR", folder)
	s.Setenv("VISUAL", "")
	s.Setenv("EDITOR", command)
	return folder
}

func (s *session) deployment(name string) *appsv1.Deployment {
	s.Helper()
	got, err := client.AppsV1().Deployments(s.namespace).Get(background, name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return got
}

// runs makes a pod of a job that a node has.
func (s *session) runs(kind, job string) {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: job + "-pod", Labels: map[string]string{
			names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: job, names.LabelJobType: kind,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}, NodeName: "somewhere"},
	}
	if _, err := client.CoreV1().Pods(s.namespace).Create(background, pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// TestPodsOfADeploymentStartOverOnlyWhenAllowed: a change of their template lets them, which no error of Kubernetes tells.
func TestPodsOfADeploymentStartOverOnlyWhenAllowed(t *testing.T) {
	for kind, yaml := range map[string]string{
		"notebook": notebook("chat"), "inference": inferenceYAML, "compute": strings.Replace(training("chat"), "training", "compute", 1),
	} {
		t.Run(kind, func(t *testing.T) {
			s := newSession(t)
			s.expect(0, "", yaml, "create", "-f", "-")
			s.expect(0, "", "", "set", "resources", "chat", "memory=3Gi") // it waits
			s.runs(kind, "chat")
			before := s.versions()
			s.editor("sed -i s/3Gi/4Gi/")
			s.expect(4, "--restart", "", "edit", "chat")
			s.expect(4, "--restart", "", "set", "resources", "chat", "memory=4Gi")
			s.expect(4, "--restart", "", "set", "resources", "chat", "memory=4Gi", "--dry-run=server")
			s.wantVersions(before)
			s.editor(`sed -i "s/job:/job: # a note/"`)
			s.expect(0, "", "", "edit", "chat") // changes nothing of the pods
			s.expect(0, "", "", "set", "resources", "chat", "memory=4Gi", "--restart")
			if got := s.memory(s.deployment(kind + "-chat").Spec.Template); got != "4Gi" {
				t.Errorf("pods ask for %s, want 4Gi", got)
			}
		})
	}
}

func (s *session) memory(template corev1.PodTemplateSpec) string {
	return template.Spec.Containers[0].Resources.Requests.Memory().String()
}

// TestScaleChangesNothingOfPods, also where they are not as the job would be rendered today.
func TestScaleChangesNothingOfPods(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", inferenceYAML, "create", "-f", "-")
	older := []byte(`{"spec":{"template":{"metadata":{"labels":{"an":"other"}},"spec":{"containers":[{"name":"main","image":"old"}]}}}}`)
	deployments := client.AppsV1().Deployments(s.namespace)
	if _, err := deployments.Patch(background, "inference-chat", types.StrategicMergePatchType, older, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	before := s.deployment("inference-chat")
	s.expect(0, "", "", "scale", "chat", "--replicas", "3", "--dry-run=server")
	if got := s.replicas("inference-chat"); got != 1 {
		t.Errorf("a dry run left %d replicas, want 1", got)
	}
	s.expect(0, "", "", "scale", "chat", "--replicas", "3")
	after := s.deployment("inference-chat")
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" || *after.Spec.Replicas != 3 {
		t.Errorf("there are %d replicas, want 3, and of their template (-before +after):\n%s", *after.Spec.Replicas, diff)
	}
	if got := s.expect(0, "", "", "export", "chat").stdout; !strings.Contains(got, "replicas: 3") {
		t.Errorf("the YAML is\n%s", got)
	}
	versions := s.versions()
	s.expect(0, "", "", "scale", "chat", "--replicas", "3")
	s.wantVersions(versions)

	s.expect(0, "", "", "pause", "chat")
	s.expect(0, "", "", "scale", "chat", "--replicas", "5")
	if got := s.replicas("inference-chat"); got != 0 {
		t.Errorf("a paused job has %d replicas", got)
	}
	s.expect(0, "", "", "resume", "chat")
	if got := s.replicas("inference-chat"); got != 5 {
		t.Errorf("%d replicas, want 5", got)
	}
}

// TestScaleKeepsToTheClaimsOfAJob: a claim of one pod is not changed into one of several, and nothing is done by half.
func TestScaleKeepsToTheClaimsOfAJob(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", inferenceYAML+"storage:\n  workdirs:\n  - {mountPath: /data, size: 1Gi}\n", "create", "-f", "-")
	s.expect(4, "cannot be changed in place", "", "scale", "chat", "--replicas", "2")
	if got := s.expect(0, "", "", "export", "chat").stdout; s.replicas("inference-chat") != 1 || !strings.Contains(got, "replicas: 1") {
		t.Errorf("there are %d replicas, want 1, of\n%s", s.replicas("inference-chat"), got)
	}
}

// TestAnEditFillsInPresets as a creation does.
func TestAnEditFillsInPresets(t *testing.T) {
	s := newSession(t)
	t.Cleanup(func() {
		_ = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(background, names.PresetConfigMap, metav1.DeleteOptions{})
	})
	s.expect(0, "", "", "set", "preset", "edited", "gpu=2", "cpu=8", "memory=8Gi")
	s.expect(0, "", training("sft"), "create", "-f", "-")
	before := s.versions()
	s.expect(2, `did you mean "edited"`, "", "set", "resources", "sft", "preset=edted")
	s.wantVersions(before)
	s.editor(`sed -i "s/memory: 1Gi/preset: edited/"`)
	s.expect(0, "", "", "edit", "sft")
	if got := s.memory(s.job("sft").Spec.Template); got != "8Gi" {
		t.Errorf("pods ask for %s, want 8Gi", got)
	}
	if got := s.expect(0, "", "", "export", "sft").stdout; !strings.Contains(got, "memory: 8Gi") || !strings.Contains(got, "cpu: 1\n") {
		t.Errorf("the YAML is\n%s", got)
	}
	s.expect(0, "", "", "set", "preset", "edited", "--delete")
	s.expect(0, "", "", "set", "resources", "sft", "memory=2Gi") // it has all that the preset said
	s.expect(2, `"other" is no preset`, "", "set", "resources", "sft", "preset=other")
}

// TestTwoEditsBothTakeEffect: one is made between the other's look at the job and its change.
func TestTwoEditsBothTakeEffect(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("sft"), "create", "-f", "-")
	direct, err := api.New(admin, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	writer, ref := submit.NewClient(direct), submit.Ref{Namespace: s.namespace, Name: "sft"}
	set := func(ctx context.Context, field, value string, first func()) error {
		_, err := writer.Rewrite(ctx, ref, func(doc workload.Document) (string, error) {
			first()
			return jobplan.SetField(doc.Source, field, value)
		}, submit.EditOptions{})
		return err
	}
	other := func() {
		if err := set(t.Context(), "resources.memory", "2Gi", func() {}); err != nil {
			t.Error(err)
		}
	}
	looks := 0
	err = set(t.Context(), "resources.cpu", "2", func() {
		if looks++; looks == 1 {
			other()
		}
	})
	if err != nil || looks != 2 {
		t.Errorf("%d looks, want 2: %v", looks, err)
	}
	if got := s.job("sft").Spec.Template; s.memory(got) != "2Gi" || got.Spec.Containers[0].Resources.Requests.Cpu().String() != "2" {
		t.Errorf("pods ask for %v, want what both said", got.Spec.Containers[0].Resources.Requests)
	}
}

// TestADryRunOfAnEditKeepsWhatWasWritten, and says where.
func TestADryRunOfAnEditKeepsWhatWasWritten(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("sft"), "create", "-f", "-")
	before := s.versions()
	folder := s.editor("sed -i s/1Gi/2Gi/")
	got := s.expect(0, "What you wrote is in "+folder, "", "edit", "sft", "--dry-run=server")
	s.wantVersions(before)
	files, err := filepath.Glob(filepath.Join(folder, "gpuctl-sft-*.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files are %q, want one (%v)\n%s", files, err, got.stderr)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "memory: 2Gi") {
		t.Errorf("the file holds %q (%v)", text, err)
	}
	s.editor("true")
	s.expect(0, "", "", "edit", "sft", "--dry-run=server")
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "gpuctl-sft-*")); len(left) > 0 {
		t.Errorf("a file in which nothing changed stays: %q", left)
	}
}
