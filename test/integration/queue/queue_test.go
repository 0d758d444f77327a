package queue

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
)

// situation is a job that does not start, though GPUs of its pool are free.
type situation struct {
	node   func(*fixture.NodeBuilder) *corev1.Node
	job    func(*env) string
	starts string
	cause  reason.Cause
	says   string
}

// eight is a node of 8 GPUs, changed.
func eight(change func(*corev1.Node)) func(*fixture.NodeBuilder) *corev1.Node {
	return func(b *fixture.NodeBuilder) *corev1.Node {
		node := b.GPUs(8, "A100-80G").Obj()
		change(node)
		return node
	}
}

var situations = map[string]situation{
	"a cordoned pool": {
		node:   eight(func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		starts: "blocked", cause: reason.Cordoned, says: "1 cordoned",
	},
	"a pool with a taint": {
		node: eight(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "owner", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
		}),
		starts: "blocked", cause: reason.Tainted, says: "1 with a taint",
	},
	"cards that are not healthy": {
		node: eight(func(n *corev1.Node) {
			n.Annotations = map[string]string{names.AnnotationInventory: fixture.Cards(n.Name, 1, 1, 1, 1, 1, 1, 1, 1).
				Unhealthy(0, 1, 2, 3, 4, 5, 6, 7).Annotation(new(testing.B))}
		}),
		starts: "blocked", cause: reason.UnhealthyGPUs, says: "1 with too few healthy GPUs",
	},
	"a volume that is not there": {
		node: eight(func(*corev1.Node) {}),
		job: func(e *env) string {
			return e.job("job", 1, 1) + "storage: {workdirs: [{pvc: nowhere, mount-path: /data}]}\n"
		},
		starts: "blocked", cause: reason.VolumeMissing, says: "nowhere",
	},
	"a request for more than a node has": {
		node:   eight(func(*corev1.Node) {}),
		job:    func(e *env) string { return e.job("job", 16, 1) },
		starts: "never",
	},
}

// TestStartsSaysTheTruth makes each situation, lets the scheduler try, and reads the queue.
func TestStartsSaysTheTruth(t *testing.T) {
	for name, tc := range situations {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.createNode(tc.node(e.node("n")))
			yaml := e.job("job", 1, 1)
			if tc.job != nil {
				yaml = tc.job(e)
			}
			e.expect(0, "", yaml, "create", "-f", "-")
			e.tried("job")
			entry := e.entry("job")
			if entry == nil || entry.Cause != tc.cause || entry.ETA != nil || entry.Never != (tc.starts == "never") || !strings.Contains(entry.Message, tc.says) {
				t.Errorf("the queue says %+v, want the cause %q, and %q", entry, tc.cause, tc.says)
			}
			if got := e.starts("job"); got != tc.starts {
				t.Errorf("STARTS is %q, want %q", got, tc.starts)
			}
		})
	}
}

// tried waits until the scheduler has spoken on the job's pod.
func (e *env) tried(job string) {
	e.Helper()
	e.eventually("the scheduler to have tried "+job, func(ctx context.Context) bool {
		list, err := client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: names.LabelJob + "=" + job})
		return err == nil && len(list.Items) > 0 && len(list.Items[0].Status.Conditions) > 0
	})
}

// TestARequestThatCannotBeRead is of a pod that somebody else made.
func TestARequestThatCannotBeRead(t *testing.T) {
	e := newEnv(t)
	e.createNode(eight(func(*corev1.Node) {})(e.node("n")))
	pod := fixture.Pod("odd").GPUs(1).Pool(e.pool).Annotate(names.AnnotationGPUMemoryMin, "much").Obj()
	if _, err := client.CoreV1().Pods(e.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := e.starts("odd"); got != "never" {
		t.Errorf("STARTS is %q, want never", got)
	}
	if entry := e.entry("odd"); entry == nil || entry.Cause != reason.MalformedRequest {
		t.Errorf("the queue says %+v", entry)
	}
}

// TestAQuotaThatIsTooSmall warns when the job is created, and is told of wherever the job is listed.
func TestAQuotaThatIsTooSmall(t *testing.T) {
	e := newEnv(t)
	e.createNode(eight(func(*corev1.Node) {})(e.node("n")))
	e.bound("team", "2")
	const never = "asks 4 GPUs, the namespace may have 2 (quota team): it never fits"
	e.expect(6, never, e.job("big", 4, 1), "create", "-f", "-", "--require-fit")
	e.expect(0, "warning: training/big "+never, e.job("big", 4, 1), "create", "-f", "-")
	e.eventually("the pods to be refused", func(context.Context) bool {
		_, stdout, _ := e.gpuctl("", "get", "jobs")
		return strings.Contains(stdout, "QuotaExceeded: "+never)
	})
	entry := e.entry("big")
	if entry == nil || entry.Position != 0 || !entry.Never || entry.Cause != reason.QuotaExceeded || entry.GPUs != 4 {
		t.Errorf("the queue says %+v", entry)
	}
	if got := e.starts("big"); got != "never" {
		t.Errorf("STARTS is %q, want never", got)
	}
	e.expect(0, "", e.job("first", 2, 1), "create", "-f", "-")
	e.eventually("the first job to have its pod", func(ctx context.Context) bool {
		got, err := client.CoreV1().ResourceQuotas(e.namespace).Get(ctx, "team", metav1.GetOptions{})
		used := got.Status.Used["requests."+names.ResourceGPU]
		return err == nil && used.Value() == 2
	})
	e.expect(0, "warning: training/second asks 1 GPU, and 2 of 2 are in use (quota team): it waits until that is free", e.job("second", 1, 1), "create", "-f", "-")
	if entry := e.entry("second"); entry == nil || entry.Never || entry.Cause != reason.QuotaExceeded {
		t.Errorf("the queue says %+v", entry)
	}
}

// TestADeadSchedulerStartsNothing runs last: it takes the scheduler from the others.
func TestZADeadSchedulerStartsNothing(t *testing.T) {
	e := newEnv(t)
	if err := scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		if scheduler, err = cluster.StartScheduler(context.Background(), sandbox.SchedulerOptions{Name: "again"}); err != nil {
			t.Error(err)
		}
	})
	e.createNode(eight(func(*corev1.Node) {})(e.node("n")))
	e.expect(0, "", e.job("job", 1, 1), "create", "-f", "-")
	e.eventually("the queue to notice", func(context.Context) bool {
		entry := e.entry("job")
		return entry != nil && entry.Cause == reason.SchedulerDown && entry.ETA == nil && e.starts("job") == "blocked"
	})
}
