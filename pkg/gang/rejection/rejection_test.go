package rejection_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/rejection"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// statuses are what plugins say of nodes.
type statuses map[string]*fwk.Status

func (s statuses) Get(node string) *fwk.Status { return s[node] }
func (s statuses) NodesForStatusCode(fwk.NodeInfoLister, fwk.Code) ([]fwk.NodeInfo, error) {
	return nil, nil
}

func refusedBy(plugin, why string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, why).WithPlugin(plugin)
}

const zone = corev1.LabelTopologyZone

// spread is a member that spreads over zones among pods with the label app=small.
func spread() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "small"}}}}
	return pod
}

// TestWhatMayLetAMemberIn that topology spread keeps off the nodes of one zone.
func TestWhatMayLetAMemberIn(t *testing.T) {
	in := func(zoneName, name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zone: zoneName}}}
	}
	nodes := map[string]*corev1.Node{"full": in("a", "full"), "spread": in("b", "spread"), "beside": in("b", "beside")}
	refused := statuses{"full": refusedBy("GPUFilter", "full"), "spread": refusedBy("PodTopologySpread", "spread")}
	failed := rejection.Attempt{Pod: spread(), AreAlike: true, Nodes: []string{"full", "spread"}, Statuses: refused}
	block := rejection.NewBlock(failed, func(name string) *corev1.Node { return nodes[name] })
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "small"}}}
	for name, tc := range map[string]struct{ got, want bool }{
		"more room on the node that was full":       {block.BlocksNode(nodes["full"]), false},
		"more room in the zone that is refused":     {block.BlocksNode(nodes["beside"]), true},
		"a node that comes to that zone":            {block.IsInDomain(in("b", "new")), true},
		"a node that moves there":                   {block.IsMoved(in("a", "x"), in("b", "x")), true},
		"a node that stays":                         {block.IsMoved(in("a", "x"), in("a", "x")), false},
		"a pod of the same spread leaves":           {block.MayBlock(small), true},
		"a pod of the same spread comes":            {block.MayHelp(small), true},
		"another pod leaves":                        {block.MayBlock(&corev1.Pod{}), false},
		"any pod, where it is not known what it is": {(*rejection.Block)(nil).MayBlock(small), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %t, want %t", name, tc.got, tc.want)
		}
	}
}

// TestAnyEventMayMatterToUnknownPlugins, and where none of the known ones said anything.
func TestAnyEventMayMatterToUnknownPlugins(t *testing.T) {
	none := func(string) *corev1.Node { return nil }
	for _, plugin := range []string{"Others", "GPUFilter"} {
		failed := rejection.Attempt{Pod: spread(), AreAlike: true, Nodes: []string{"n"}, Statuses: statuses{"n": refusedBy(plugin, "no")}}
		if block := rejection.NewBlock(failed, none); block != nil {
			t.Errorf("%s: %+v", plugin, block)
		}
	}
}

// TestSummarizeRefusals names the most frequent reasons of others.
func TestSummarizeRefusals(t *testing.T) {
	refused := statuses{}
	nodes := []string{"a", "b", "c", "d", "e", "f"}
	for i, why := range []string{"ports", "ports", "spread", "own", "volumes", "affinity"} {
		refused[nodes[i]] = refusedBy("P", why)
	}
	if got, want := rejection.SummarizeRefusals(refused, nodes, sets.New("own")), "2 ports, 1 affinity, 1 spread"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := rejection.SummarizeRefusals(nil, nodes, nil); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}

// TestReadRefusal reads again what a leader wrote on a pod, within bounds.
func TestReadRefusal(t *testing.T) {
	until := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	says := func(long, words string) *corev1.Pod {
		text := reason.PlaceRefused.Text.FormatText(until.Format(time.RFC3339), long, words)
		return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: text}}}}
	}
	backoff, words, ok := rejection.ReadRefusal(says("2m0s", "denied"))
	if want := (phase.Backoff{Until: until, Duration: 2 * time.Minute}); !ok || backoff != want || words != "denied" {
		t.Errorf("got %v, %q, %t", backoff, words, ok)
	}
	if backoff, _, _ := rejection.ReadRefusal(says("9000h0m0s", "denied")); backoff.Duration != phase.MaxBackoff {
		t.Errorf("it backs off for %s", backoff.Duration)
	}
	for name, pod := range map[string]*corev1.Pod{"no condition": {}, "no duration": says("long", "denied")} {
		if _, _, ok := rejection.ReadRefusal(pod); ok {
			t.Errorf("%s: a refusal is read", name)
		}
	}
}

// TestShortenText keeps a refusal on one line.
func TestShortenText(t *testing.T) {
	if got := rejection.ShortenText(" denied\n by  a webhook. "); got != "denied by a webhook" {
		t.Errorf("got %q", got)
	}
	if got := rejection.ShortenText(strings.Repeat("ä", 1000)); len(got) > 310 || !strings.HasPrefix(got, "ä") {
		t.Errorf("%d bytes", len(got))
	}
}
