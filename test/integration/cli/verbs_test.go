package cli

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func (s *session) replicas(deployment string) int32 {
	s.Helper()
	got, err := client.AppsV1().Deployments(s.namespace).Get(background, deployment, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return *got.Spec.Replicas
}

func TestPauseAndResumeATrainingJob(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("sft"), "create", "-f", "-")
	before := s.versions()
	s.expect(0, "", "", "pause", "sft", "--dry-run=server")
	s.wantVersions(before)
	if got := s.expect(0, "", "", "pause", "sft"); got.stdout != "training/sft paused: its GPU is released as its pod ends\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if !*s.job("sft").Spec.Suspend {
		t.Error("the Job is not suspended")
	}
	paused := s.versions()
	if got := s.expect(0, "", "", "pause", "training/sft"); got.stdout != "training/sft is paused already\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.wantVersions(paused)
	if got := s.expect(0, "", "", "get", "job", "sft", "-o", "yaml"); !strings.Contains(got.stdout, "status: Suspended") {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(0, "", "", "resume", "sft")
	if *s.job("sft").Spec.Suspend {
		t.Error("the Job is still suspended")
	}
	s.expect(3, "not found", "", "pause", "nothing")
	s.expect(3, "notebook", "", "pause", "notebook/sft")
	s.expect(2, "unknown kind", "", "pause", "widget/sft")
}

func TestPauseAndResumeAServiceRememberItsReplicas(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", strings.Replace(inferenceYAML, "replicas: 1", "replicas: 3", 1), "create", "-f", "-")
	if got := s.expect(0, "", "", "pause", "chat", "-o", "json"); !strings.Contains(got.stdout, `"action": "paused"`) {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.replicas("inference-chat"); got != 0 {
		t.Errorf("%d replicas, want 0", got)
	}
	s.expect(0, "", "", "resume", "chat")
	if got := s.replicas("inference-chat"); got != 3 {
		t.Errorf("%d replicas, want 3", got)
	}
	s.expect(0, "", "", "cancel", "chat")
	s.expect(4, "was cancelled", "", "resume", "chat")
	s.expect(0, "", "", "retry", "chat")
	if got := s.replicas("inference-chat"); got != 3 {
		t.Errorf("%d replicas, want 3", got)
	}
}

func TestRetryMakesAJobAnewAndKeepsItsClaims(t *testing.T) {
	s := newSession(t)
	yaml := training("sft") + "storage:\n  workdirs:\n  - {mountPath: /data, size: 1Gi}\n"
	s.expect(0, "", yaml, "create", "-f", "-")
	old := s.job("sft")
	s.expect(4, "gpuctl cancel sft", "", "retry", "sft")
	s.expect(0, "", "", "cancel", "sft")
	if job := s.job("sft"); *job.Spec.ActiveDeadlineSeconds != 0 || job.Annotations[names.AnnotationCancelledAt] == "" {
		t.Errorf("the Job's deadline is %d", *job.Spec.ActiveDeadlineSeconds)
	}
	s.expect(0, "", yaml, "apply", "-f", "-") // it stays cancelled
	s.finish("sft")
	if got := s.expect(0, "", "", "retry", "sft"); got.stdout != "training/sft started over: it waits for 1 GPU\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	job := s.job("sft")
	if job.UID == old.UID || *job.Spec.Suspend || job.Spec.ActiveDeadlineSeconds != nil || job.Annotations[names.AnnotationCancelledAt] != "" {
		t.Errorf("the Job is not a new one that runs: %+v", job.Spec)
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 1 || claims.Items[0].OwnerReferences[0].UID != job.UID {
		t.Errorf("the claims are %+v, want the old one, owned by the new Job", claims.Items)
	}
}

// finish does what the Job controller, which does not run here, does when the deadline has passed.
func (s *session) finish(name string) {
	s.Helper()
	job := s.job(name)
	now := metav1.Now()
	job.Status.StartTime = &now
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded, LastTransitionTime: now,
		})
	}
	if _, err := client.BatchV1().Jobs(s.namespace).UpdateStatus(background, job, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func TestPriorityAndPoolChangeWhileAJobWaits(t *testing.T) {
	s := newSession(t)
	pool := "p-" + s.namespace
	s.node(s.namespace+"-1", map[string]string{names.LabelPool: pool})
	s.expect(0, "", training("sft")+"# the end\n", "create", "-f", "-")
	if got := s.expect(0, "", "", "set", "priority", "sft", "high"); got.stdout != "training/sft has priority high now\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.expect(0, "", "", "set", "priority", "sft", "high"); got.stdout != "training/sft has that priority already\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(3, "no nodes", "", "move", "sft", "--pool", "nowhere")
	s.expect(7, "the largest such node of pool "+pool+" has 0\nNothing was changed", "", "move", "sft", "--pool", pool) // without GPUs
	if job := s.job("sft"); job.Spec.Template.Labels[names.LabelPool] == pool {
		t.Error("a move that was refused has moved the job")
	}
	s.expect(0, "warning: ", "", "move", "sft", "--pool", pool, "--force")
	job := s.job("sft")
	template := job.Spec.Template
	if template.Spec.PriorityClassName != names.PriorityClassHigh || template.Spec.NodeSelector[names.LabelPool] != pool ||
		template.Labels[names.LabelPool] != pool || *job.Spec.Suspend {
		t.Errorf("the Job's pods are %+v", template)
	}
	exported := s.expect(0, "", "", "export", "job", "sft")
	for _, text := range []string{"priority: high", "pool: " + pool, "# the end"} {
		if !strings.Contains(exported.stdout, text) {
			t.Errorf("the exported YAML does not hold %q:\n%s", text, exported.stdout)
		}
	}
	s.expect(0, "", exported.stdout, "diff", "-f", "-")
	s.expect(2, "did you mean", "", "set", "priority", "sft", "hihg")
	s.expect(2, "--pool", "", "move", "sft")
}

func TestAJobThatRunsIsNotChangedWithoutRestart(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("sft"), "create", "-f", "-")
	old := s.job("sft")
	s.runningPod(old)
	s.expect(4, "--restart", "", "set", "priority", "sft", "high")
	if s.job("sft").UID != old.UID {
		t.Error("the Job was made again")
	}
}

// runningPod makes a pod of a Job that has a node, as the Job controller and a scheduler would.
func (s *session) runningPod(job *batchv1.Job) {
	s.Helper()
	pods := client.CoreV1().Pods(s.namespace)
	pod, err := pods.Create(background, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: job.Name, Labels: job.Spec.Template.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}, NodeName: "somewhere"},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := pods.Patch(background, pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`),
		metav1.PatchOptions{}, "status"); err != nil {
		s.Fatal(err)
	}
}

func TestExportReturnsWhatWasSubmitted(t *testing.T) {
	s := newSession(t)
	text := "# mine\n" + training("sft")
	s.expect(0, "", text, "create", "-f", "-")
	if got := s.expect(0, "", "", "export", "job", "sft"); got.stdout != text {
		t.Errorf("the exported YAML is\n%s\nwant\n%s", got.stdout, text)
	}
	s.expect(3, "", "", "export", "nothing")
}
