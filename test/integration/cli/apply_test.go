package cli

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// versions are the resource versions of all that a job can be made of: a write changes one of them.
func (s *session) versions() map[string]string {
	s.Helper()
	out := map[string]string{}
	jobs, err := client.BatchV1().Jobs(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range jobs.Items {
		out["Job "+o.Name] = o.ResourceVersion
	}
	deployments, err := client.AppsV1().Deployments(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range deployments.Items {
		out["Deployment "+o.Name] = o.ResourceVersion
	}
	services, err := client.CoreV1().Services(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range services.Items {
		out["Service "+o.Name] = o.ResourceVersion
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range claims.Items {
		out["Claim "+o.Name] = o.ResourceVersion
	}
	return out
}

func (s *session) job(name string) *batchv1.Job {
	s.Helper()
	job, err := client.BatchV1().Jobs(s.namespace).Get(background, name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return job
}

const inferenceYAML = `kind: inference
job:
  name: chat
  description: a model
environment:
  image: busybox
  env: {A: "1", B: "2"}
resources: {gpu: 1, cpu: 1, memory: 1Gi}
service: {replicas: 1, port: 8000}
`

func TestApplyCreatesThenChangesNothingThenChangesWhatDiffers(t *testing.T) {
	s := newSession(t)
	if got := s.expect(0, "", inferenceYAML, "apply", "-f", "-"); got.stdout != "inference/chat created\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	before := s.versions()
	if got := s.expect(0, "", inferenceYAML, "apply", "-f", "-"); got.stdout != "inference/chat unchanged\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.wantVersions(before)
	if got := s.expect(0, "", inferenceYAML, "diff", "-f", "-"); got.stdout != "" {
		t.Errorf("diff of what is the same is %q", got.stdout)
	}

	changed := strings.NewReplacer("replicas: 1", "replicas: 2", `, B: "2"`, "", "  description: a model\n", "").Replace(inferenceYAML)
	diff := s.expect(1, "", changed, "diff", "-f", "-")
	for _, line := range []string{"-  replicas: 1\n", "+  replicas: 2\n", "-        - name: B\n", "-    g8s.host/description: a model\n"} {
		if !strings.Contains(diff.stdout, line) {
			t.Errorf("the diff has no line %q:\n%s", line, diff.stdout)
		}
	}
	s.wantVersions(before)
	if got := s.expect(0, "", changed, "apply", "-f", "-"); got.stdout != "inference/chat configured\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	deployment, err := client.AppsV1().Deployments(s.namespace).Get(background, "inference-chat", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	env := deployment.Spec.Template.Spec.Containers[0].Env
	if *deployment.Spec.Replicas != 2 || len(env) != 1 || deployment.Annotations[names.AnnotationDescription] != "" {
		t.Errorf("the deployment has %d replicas, env %v, description %q; want 2, one variable and none",
			*deployment.Spec.Replicas, env, deployment.Annotations[names.AnnotationDescription])
	}
	after := s.versions()
	s.expect(0, "", changed, "apply", "-f", "-")
	s.wantVersions(after)
}

func (s *session) wantVersions(want map[string]string) {
	s.Helper()
	got := s.versions()
	for object, version := range want {
		if got[object] != version {
			s.Errorf("%s was written: its version is %q, was %q", object, got[object], version)
		}
	}
	if len(got) != len(want) {
		s.Errorf("there are %d objects, were %d", len(got), len(want))
	}
}

func TestApplyRemovesAServiceThatAJobHasNotAnyMore(t *testing.T) {
	s := newSession(t)
	compute := strings.Replace(inferenceYAML, "kind: inference", "kind: compute", 1)
	s.expect(0, "", compute, "apply", "-f", "-")
	s.wantObjects(2)
	s.expect(0, "", strings.Replace(compute, ", port: 8000", "", 1), "apply", "-f", "-")
	s.wantObjects(1)
	s.expect(0, "", compute, "apply", "-f", "-")
	s.wantObjects(2)
}

func TestAnImmutableChangeIsRefusedShownAndMadeByReplace(t *testing.T) {
	s := newSession(t)
	withClaim := training("sft") + "storage:\n  workdirs:\n  - {mountPath: /data, size: 1Gi}\n"
	s.expect(0, "", withClaim, "create", "-f", "-")
	before, old := s.versions(), s.job("sft")
	changed := strings.Replace(withClaim, "sleep\", \"60", "sleep\", \"90", 1)
	got := s.expect(4, "--replace", changed, "apply", "-f", "-")
	if !strings.Contains(got.stderr, `+        - "90"`) || strings.Contains(got.stderr, "PodTemplateSpec") {
		t.Errorf("stderr does not show the change, or shows the whole template:\n%s", got.stderr)
	}
	if uid := s.job("sft").UID; uid != old.UID {
		t.Errorf("the job was made again without being asked")
	}
	s.expect(1, "--replace", changed, "diff", "-f", "-")

	if got := s.expect(0, "", changed, "apply", "-f", "-", "--replace"); got.stdout != "training/sft replaced\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	job := s.job("sft")
	if job.UID == old.UID || *job.Spec.Suspend || job.Spec.Template.Spec.Containers[0].Command[1] != "90" {
		t.Errorf("the job is %s, suspended %t, with command %v", job.UID, *job.Spec.Suspend, job.Spec.Template.Spec.Containers[0].Command)
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 1 || len(before) != 2 || claims.Items[0].OwnerReferences[0].UID != job.UID {
		t.Errorf("the claims are %+v, want the old one, owned by the new job", claims.Items)
	}
}

func TestApplyRefusesWhatTheServerWouldNotCreate(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("lab"), "create", "-f", "-")
	before := s.versions()
	s.expect(4, "already exists", notebook("lab"), "apply", "-f", "-")
	bad := strings.Replace(training("lab"), "gpu: 1", "gpu: 2\n  time-limit: 1h", 1) + "storage:\n  workdirs:\n  - {mountPath: /x, pvc: Bad_Name}\n"
	s.expect(2, "", bad, "apply", "-f", "-", "--replace")
	s.wantVersions(before)
}

func TestApplyDoesNotOverwriteWhatAnotherProgramSet(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", inferenceYAML, "apply", "-f", "-")
	_, err := client.AppsV1().Deployments(s.namespace).Patch(background, "inference-chat", types.ApplyPatchType,
		[]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"inference-chat"},"spec":{"replicas":5}}`),
		metav1.PatchOptions{FieldManager: "autoscaler", Force: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	s.expect(4, "autoscaler", inferenceYAML, "apply", "-f", "-")
	s.expect(0, "", inferenceYAML, "apply", "-f", "-", "--force-conflicts")
}

func TestApplyOfAPausedJobLeavesItPaused(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", inferenceYAML, "apply", "-f", "-")
	deployments := client.AppsV1().Deployments(s.namespace)
	patch := []byte(`{"metadata":{"annotations":{"g8s.host/replicas":"1"}},"spec":{"replicas":0}}`)
	if _, err := deployments.Patch(background, "inference-chat", types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "gpuctl"}); err != nil {
		t.Fatal(err)
	}
	s.expect(0, "", strings.Replace(inferenceYAML, "replicas: 1", "replicas: 3", 1), "apply", "-f", "-")
	deployment, err := deployments.Get(background, "inference-chat", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *deployment.Spec.Replicas != 0 || deployment.Annotations[names.AnnotationReplicas] != "3" {
		t.Errorf("the deployment has %d replicas and remembers %q, want 0 and 3",
			*deployment.Spec.Replicas, deployment.Annotations[names.AnnotationReplicas])
	}
}

func TestApplyOfAPoolLetsNodesGoThatTheFileDoesNotName(t *testing.T) {
	s := newSession(t)
	first, second, third := s.namespace+"-1", s.namespace+"-2", s.namespace+"-3"
	s.node(first, nil)
	s.node(second, nil)
	s.node(third, map[string]string{names.LabelPool: "train-" + s.namespace})
	yaml := s.pool("train-" + s.namespace)
	s.expect(1, "", yaml, "diff", "-f", "-")
	s.expect(0, "", yaml, "apply", "-f", "-")
	if got := s.label(first, names.LabelPool) + " " + s.label(third, names.LabelPool); got != "train-"+s.namespace+" " {
		t.Errorf("the pools of the first and the third node are %q", got)
	}
	if got := s.expect(0, "", yaml, "apply", "-f", "-"); !strings.HasSuffix(got.stdout, "unchanged\n") {
		t.Errorf("stdout is %q", got.stdout)
	}
}

const quotaYAML = `kind: quota
quota: {name: NAME}
namespace:
  NAME-a: {gpu: 2, pods: 5}
  NAME-b: {gpu: 4}
`

func TestQuotaLifecycle(t *testing.T) {
	s := newSession(t)
	yaml := strings.ReplaceAll(quotaYAML, "NAME", s.namespace)
	s.expect(0, "", yaml, "create", "-f", "-", "--dry-run=server")
	s.expect(0, "", yaml, "create", "-f", "-")
	hard := func() corev1.ResourceList {
		t.Helper()
		quota, err := client.CoreV1().ResourceQuotas(s.namespace+"-a").Get(background, "gpuctl-quota", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return quota.Spec.Hard
	}
	if gpus := hard()["requests.nvidia.com/gpu"]; gpus.Value() != 2 {
		t.Errorf("the namespace has %s GPUs, want 2", &gpus)
	}
	s.expect(4, "already exists", yaml, "create", "-f", "-")
	if got := s.expect(0, "", yaml, "apply", "-f", "-"); !strings.HasSuffix(got.stdout, "unchanged\n") {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(0, "", strings.Replace(yaml, "gpu: 2, pods: 5", "gpu: 3", 1), "apply", "-f", "-")
	if gpus := hard()["requests.nvidia.com/gpu"]; gpus.Value() != 3 || hard()[corev1.ResourcePods] != (resource.Quantity{}) {
		t.Errorf("the namespace is bounded by %v, want 3 GPUs and any number of pods", hard())
	}
	if got := s.expect(0, "", "", "-n", "", "get", "quotas", s.namespace+"-a", "--no-headers"); !strings.Contains(got.stdout, " 0/3 ") {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.expect(0, "", "", "-n", "", "describe", "quota", s.namespace); !strings.Contains(got.stdout, "nvidia.com/gpu") {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.expect(0, "", "", "describe", "namespace", s.namespace+"-a"); !strings.Contains(got.stdout, "Quota "+s.namespace) {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(3, "", "", "describe", "quota", "nothing")
	s.expect(3, "", "", "get", "quota", "nothing")

	foreign := strings.ReplaceAll(strings.ReplaceAll(quotaYAML, "{name: NAME}", "{name: other}"), "NAME", s.namespace)
	s.expect(4, "only one", foreign, "apply", "-f", "-")
	s.expect(0, "", "", "delete", "quota", s.namespace)
	if _, err := client.CoreV1().Namespaces().Get(background, s.namespace+"-a", metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace went with its quota: %v", err)
	}
	s.expect(3, "", "", "delete", "quota", s.namespace)
	s.expect(0, "", yaml, "create", "-f", "-")
	s.expect(2, "-y", "", "delete", "quota", s.namespace, "--delete-namespace")
	s.expect(2, "-y", "", "delete", "ns", s.namespace+"-a")
	if got := s.expect(0, "", "", "delete", "quota", s.namespace, "--delete-namespace", "-y", "--wait=false"); !strings.Contains(got.stdout, "namespace/"+s.namespace+"-b deleted") {
		t.Errorf("stdout is %q", got.stdout)
	}
	// No controller empties namespaces here, so that none ever goes.
	s.expect(8, "is deleted, and not gone", "", "delete", "ns", s.namespace+"-a", "-y", "--timeout", "300ms")
	s.expect(4, "was not made by gpuctl", "", "delete", "namespace", s.namespace, "-y")
}

func TestDeleteByLabelAndAll(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("a"), "create", "-f", "-")
	s.expect(0, "", training("b")+"---\n"+notebook("c"), "create", "-f", "-")
	s.expect(2, "-y", "", "delete", "--all")
	s.expect(2, "not several", "", "delete", "a", "--all")
	if got := s.expect(0, "", "", "delete", "-l", names.LabelJob+"=a", "-y"); got.stdout != "training/a deleted\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.expect(0, "", "", "delete", "jobs", "--all", "--kind", "training", "-y"); got.stdout != "training/b deleted\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(3, "", "", "delete", "training/c")
	s.expect(0, "", "", "delete", "training/c", "--ignore-not-found")
	s.expect(0, "", "", "describe", "c")
	s.expect(0, "", "", "delete", "notebook/c", "--wait=false")
	s.expect(0, "No jobs found", "", "delete", "--all", "-y")
}

// TestWhoMaySeeNoPodsChangesATimeLimit, in place: whether a pod has a node is not theirs to know.
func TestWhoMaySeeNoPodsChangesATimeLimit(t *testing.T) {
	s := newSession(t)
	limited := func(limit string) string { return training("sft") + "  time-limit: " + limit + "\n" }
	s.expect(0, "", limited("2h"), "create", "-f", "-")
	before := s.job("sft")
	s.kubeconfig = s.restrictedUser()
	s.grant(rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{"*"}, Resources: []string{"jobs", "deployments", "services", "leases", "persistentvolumeclaims"}},
		rbacv1.PolicyRule{Verbs: []string{"patch"}, APIGroups: []string{"batch"}, Resources: []string{"jobs"}})
	if got := s.expect(0, "", limited("1h"), "apply", "-f", "-"); got.stdout != "training/sft configured\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if after := s.job("sft"); after.UID != before.UID || *after.Spec.ActiveDeadlineSeconds != 3600 {
		t.Errorf("it is another job (%v), or has a limit of %d s, want 3600", after.UID != before.UID, *after.Spec.ActiveDeadlineSeconds)
	}
}
