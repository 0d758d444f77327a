package policy

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// job is a job in gpuctl's YAML, with some text replaced.
func job(replacements ...string) string {
	return strings.NewReplacer(replacements...).Replace(
		"kind: training\njob: {name: sft}\nenvironment: {image: busybox, command: [sleep, 60]}\nresources: {gpu: 1}\n")
}

// TestGpuctlSaysWhatIsRefused submits jobs with the roles that we ship. What is refused leaves nothing behind.
func TestGpuctlSaysWhatIsRefused(t *testing.T) {
	restrict(t, map[string]string{"pools.gold-pool": "research", "priorities.g8s-high": "research"})
	const resources, environment = "gpu: 1", "image: busybox"
	tests := map[string]struct {
		yaml string
		code int
		want string
	}{
		"a path of the node": {
			job("resources:", "storage: {workdirs: [{path: /, mount-path: /host}]}\nresources:"), 2,
			"error: <stdin>:1: storage.workdirs[0]: the administrator does not allow jobs to mount / of the node (allowed: /datasets, ",
		},
		"a pool for others": {
			job(resources, "gpu: 1, pool: gold-pool"), 5,
			"error: creating Job sft: pool gold-pool is not for namespace NAMESPACE: ask for another pool (resources.pool in gpuctl's YAML), " +
				"or ask an administrator to add the namespace to pools.gold-pool of the ConfigMap kube-system/gpuctl-policy\n" +
				"It is the policy g8s-access of the cluster that refuses this\n",
		},
		"a priority for others": {
			job("name: sft", "name: sft, priority: high"), 5,
			"error: creating Job sft: priority class g8s-high is not for namespace NAMESPACE: take a lower one",
		},
		"all cards": {
			job(environment, "image: busybox, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"), 5,
			"error: creating Job sft: the scheduler chooses the cards: NVIDIA_VISIBLE_DEVICES and the like",
		},
		"all cards, as an inference": {
			job("training", "inference", environment, "image: busybox, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"), 5,
			"error: creating Deployment inference-sft: the scheduler chooses the cards",
		},
		"every taint":         {job(resources, "gpu: 1, tolerations: [{operator: Exists}]"), 5, "Name the key of the taint that is meant"},
		"nothing of the kind": {job(resources, "gpu: 1, pool: training-pool"), 0, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			namespace := team(t, nil)
			got := gpuctl(t, namespace, test.yaml, "create", "-f", "-")
			want := strings.ReplaceAll(test.want, "NAMESPACE", namespace)
			if got.code != test.code || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "ValidatingAdmissionPolicy") {
				t.Errorf("exit code %d, want %d; it says\n%s\nwant %q", got.code, test.code, got.stderr, want)
			}
			if list := gpuctl(t, namespace, "", "get", "jobs", "-o", "name"); (list.stdout == "") != (test.code != 0) {
				t.Errorf("the jobs are %q after exit code %d", list.stdout, got.code)
			}
		})
	}
}

// TestARefusalOfThePodsIsSeen: a job is made while it is allowed, and its pods when it is not any more.
func TestARefusalOfThePodsIsSeen(t *testing.T) {
	namespace := team(t, nil)
	if got := gpuctl(t, namespace, job("gpu: 1", "gpu: 1, pool: gold-pool"), "create", "-f", "-"); got.code != 0 {
		t.Fatal(got.stderr)
	}
	eventually(t, "a pod of the job", func(context.Context) bool {
		list, err := admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) > 0
	})
	if got := gpuctl(t, namespace, "", "pause", "sft"); got.code != 0 {
		t.Fatal(got.stderr)
	}
	restrict(t, map[string]string{"pools.gold-pool": "research"})
	if got := gpuctl(t, namespace, "", "resume", "sft"); got.code != 0 {
		t.Fatal(got.stderr)
	}
	var list, why result
	eventually(t, "gpuctl to say why no pod comes", func(context.Context) bool {
		list, why = gpuctl(t, namespace, "", "get", "jobs"), gpuctl(t, namespace, "", "why", "sft")
		return strings.Contains(list.stdout, "pool gold-pool is not for namespace "+namespace)
	})
	for _, want := range []string{"RefusedByPolicy", "pool gold-pool is not for namespace " + namespace} {
		if !strings.Contains(why.stdout, want) {
			t.Errorf("gpuctl why says\n%s\nwant %q", why.stdout, want)
		}
	}
}

// ownNamespace is where an example says which namespace it is for.
var ownNamespace = regexp.MustCompile(`(?m)^( +namespace: ).*$`)

// TestEveryExamplePasses creates all that we tell people to write, as they would: with the roles that we ship.
func TestEveryExamplePasses(t *testing.T) {
	var files []string
	err := filepath.WalkDir("../../../examples", func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".yaml" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 15 {
		t.Fatalf("found the examples %v (%v)", files, err)
	}
	bindEverywhere(t, "g8s:admin", "ana") // some are pools and quotas
	bindEverywhere(t, "g8s:fleet-reader", "ana")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(content), "image:") || strings.Contains(string(content), "kind: SpotPool") {
				t.Skip("it makes no pods")
			}
			namespace := team(t, nil)
			if got := gpuctl(t, namespace, ownNamespace.ReplaceAllString(string(content), "${1}"+namespace), "create", "-f", "-"); got.code != 0 {
				t.Fatalf("exit code %d: %s", got.code, got.stderr)
			}
			eventually(t, "a pod of each job", func(ctx context.Context) bool {
				pods, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
				return err == nil && len(pods.Items) > 0
			})
			events, err := admin.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events.Items {
				t.Error(event.Message)
			}
		})
	}
}

// TestNamespacesThatGpuctlMakes: Pod Security holds in them, and a message says so before it refuses pods.
func TestNamespacesThatGpuctlMakes(t *testing.T) {
	for _, role := range []string{"g8s:admin", "g8s:user", "g8s:reader"} {
		bindEverywhere(t, role, "ana")
	}
	const namespace = "team-of-a-quota"
	quota := "kind: quota\nquota: {name: team}\nnamespace: {" + namespace + ": {gpu: 8}}\n"
	if got := gpuctl(t, "default", quota, "create", "-f", "-"); got.code != 0 {
		t.Fatal(got.stderr)
	}
	made, err := admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil || made.Labels[names.LabelPodSecurityEnforce] != names.PodSecurityBaseline {
		t.Fatalf("the namespace has the labels %v (%v)", made.Labels, err)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"a port of the node": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		},
		"an allowed path":      mounts("/datasets"),
		"a capability for MPI": capable("IPC_LOCK"),
	} {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			change(pod)
			checkRefusal(t, makePod(t, jobController, namespace, pod), "baseline")
		})
	}
	mounting := job("resources:", "storage: {workdirs: [{path: /datasets}]}\nresources:")
	want := "namespace " + namespace + " takes no paths of nodes, because Pod Security enforces \"baseline\" in it (/datasets)"
	if got := gpuctl(t, namespace, mounting, "create", "-f", "-"); got.code != 5 || !strings.Contains(got.stderr, want) {
		t.Errorf("exit code %d, stderr\n%s\nwant %q", got.code, got.stderr, want)
	}
	if got := gpuctl(t, namespace, job("sft", "plain"), "create", "-f", "-"); got.code != 0 {
		t.Error(got.stderr)
	}

	// What the message says helps, and the other policies hold then, too.
	patch := []byte(`{"metadata":{"labels":{"` + names.LabelPodSecurityEnforce + `":"privileged","` + names.LabelPodSecurityWarn + `":null}}}`)
	if _, err := admin.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "paths to be allowed", func(context.Context) bool {
		return gpuctl(t, namespace, mounting, "create", "-f", "-").code == 0
	})
	checkRefusal(t, makePod(t, jobController, namespace, func() *corev1.Pod { p := plain(); privileged(p); return p }()), "privileged containers")
	if got := gpuctl(t, "default", quota, "apply", "-f", "-"); got.code != 0 {
		t.Error(got.stderr)
	}
	made, err = admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil || made.Labels[names.LabelPodSecurityEnforce] != "privileged" {
		t.Errorf("applied again, the namespace has the labels %v (%v), want what the administrator set", made.Labels, err)
	}
}
