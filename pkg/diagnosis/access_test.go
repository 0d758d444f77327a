package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// poolFor is a pool that some may use.
func poolFor(name string, namespaces []string, priorities ...names.PoolPriority) names.GPUPool {
	pool := names.GPUPool{Spec: names.GPUPoolSpec{Access: names.PoolAccess{Namespaces: namespaces, Priorities: priorities}}}
	pool.Name = name
	return pool
}

func TestDenied(t *testing.T) {
	pools := []names.GPUPool{poolFor("all", nil), poolFor("lab", []string{"lab", "team"}), poolFor("fast", nil, "high", "medium")}
	tests := map[string]struct{ pool, namespace, class, want string }{
		"a pool for all":              {"all", "team", "g8s-low", ""},
		"a pool without an object":    {"other", "team", "", ""},
		"a namespace of the list":     {"lab", "team", "g8s-low", ""},
		"a namespace that is not":     {"lab", "web", "g8s-low", "pool lab is not for namespace web"},
		"a priority of the list":      {"fast", "team", "g8s-medium", ""},
		"a priority that is not":      {"fast", "team", "g8s-low", "pool fast takes priority high, medium only, and the job has low"},
		"a class that is none of our": {"fast", "team", "batch", "pool fast takes priority high, medium only, and the job has batch"},
		"no class":                    {"fast", "team", "", "pool fast takes priority high, medium only, and the job has none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PoolDenial(pools, tc.pool, tc.namespace, tc.class).String(); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAPoolThatIsNotForAJob(t *testing.T) {
	const refusal = `pods "x" is forbidden: ValidatingAdmissionPolicy 'g8s-pool-access' with binding 'g8s-pool-access' denied request: pool p is not for namespace team`
	tests := map[string]struct {
		refusal string
		change  func(*Facts)
		want    reason.Cause
		says    string
		never   string
	}{
		"the API server has refused its pods": {refusal: refusal, change: func(f *Facts) { f.Cluster.GPUPools = []names.GPUPool{poolFor("p", []string{"lab"})} },
			want: reason.RefusedByPolicy, says: "pool p is not for namespace team, so that policy g8s-pool-access refuses", never: "set priority"},
		"for want of a priority": {refusal: refusal, change: func(f *Facts) { f.Cluster.GPUPools = []names.GPUPool{poolFor("p", nil, "high")} },
			want: reason.RefusedByPolicy, says: "gpuctl set priority train high -n team"},
		"it is for the job by now": {refusal: refusal, change: func(f *Facts) { f.Cluster.GPUPools = []names.GPUPool{poolFor("p", []string{"team"})} },
			want: reason.WaitingForControllers, says: "nothing stands against them any more"},
		"nobody may see the pools": {refusal: refusal, change: func(f *Facts) { f.Cluster.MarkUnread("GPUPools") },
			want: reason.RefusedByPolicy, says: "policy g8s-pool-access of the cluster refuses the job's pods: pool p is not for namespace team"},
		"the API server's word is forgotten": {change: func(f *Facts) { f.Cluster.GPUPools = []names.GPUPool{poolFor("p", []string{"lab"})} },
			want: reason.RefusedByPolicy, says: "so that the API server refuses its pods"},
		"the job is new": {change: func(f *Facts) {
			f.Cluster.GPUPools, f.Job.Created = []names.GPUPool{poolFor("p", []string{"lab"})}, noon.Add(-time.Second)
		}, want: reason.WaitingForControllers, never: "is not for"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(unborn(tc.refusal, tc.change))
			if len(report.Findings) == 0 || report.Cause != tc.want {
				t.Fatalf("the report is %+v", report)
			}
			said := report.Findings[0].Text + " " + strings.Join(report.Findings[0].Advice, " ")
			if !strings.Contains(said, tc.says) || tc.never != "" && strings.Contains(said, tc.never) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestNoAdviceIntoAPoolThatIsNotForTheJob: it would be refused there.
func TestNoAdviceIntoAPoolThatIsNotForTheJob(t *testing.T) {
	f := factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy), node("n1", "p", 8), node("n2", "lab", 8))
	f.Cluster.Pods = []corev1.Pod{on("n1", 8, "other")}
	advice := func() string { return strings.Join(Diagnose(f).Findings[0].Advice, " ") }
	if said := advice(); !strings.Contains(said, "--pool lab") {
		t.Fatalf("without a GPUPool the advice is %q", said)
	}
	f.Cluster.GPUPools = []names.GPUPool{poolFor("lab", []string{"lab"})}
	if said := advice(); strings.Contains(said, "lab") {
		t.Errorf("the advice is %q", said)
	}
}
