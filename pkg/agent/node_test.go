package agent

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

func a100s(health ...string) *View {
	view := &View{Health: map[string]string{}}
	for i, word := range health {
		uuid := string(rune('A' + i))
		view.Fleet.GPUs = append(view.Fleet.GPUs, hardware.GPU{UUID: uuid, Index: i, Product: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920})
		view.Health[uuid] = word
	}
	return view
}

// TestChanges: a node is written when it does not say what is, and then no more.
func TestChanges(t *testing.T) {
	now := metav1.Now()
	node := &corev1.Node{}
	apply := func(view *View, unfit Unfitness) changes {
		t.Helper()
		c, err := computeChanges(node, view, nil, readyCondition(unfit, ""), now)
		if err != nil {
			t.Fatal(err)
		}
		next := node.DeepCopy()
		for key, value := range c.labels {
			metav1.SetMetaDataLabel(&next.ObjectMeta, key, value)
		}
		for key, value := range c.annotations {
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
		}
		for _, condition := range c.conditions {
			next.Status.Conditions = append(slices.DeleteFunc(next.Status.Conditions, func(before corev1.NodeCondition) bool {
				return before.Type == condition.Type
			}), condition)
		}
		node = next
		return c
	}
	if first := apply(a100s(gpu.Healthy, gpu.Healthy), Unfitness{}); first.isEmpty() || !first.urgent {
		t.Errorf("the first changes are %+v, want all, at once", first)
	}
	if again := apply(a100s(gpu.Healthy, gpu.Healthy), Unfitness{}); !again.isEmpty() {
		t.Errorf("changes %+v though nothing changed", again)
	}
	quiet := now
	now = metav1.NewTime(quiet.Add(heartbeat))
	if c := apply(a100s(gpu.Healthy, gpu.Healthy), Unfitness{}); c.urgent || len(c.conditions) != 2 || !c.conditions[0].LastTransitionTime.Equal(&quiet) {
		t.Errorf("changes %+v after a while, want a heartbeat of both conditions without haste, as old as they are", c)
	}
	if again := apply(a100s(gpu.Healthy, gpu.Healthy), Unfitness{}); !again.isEmpty() {
		t.Errorf("changes %+v just after a heartbeat", again)
	}
	linked := a100s(gpu.Healthy, gpu.Healthy)
	linked.Fleet.Links = []gpu.Link{{GPUs: []int{0, 1}, NVLinks: 4}}
	if c := apply(linked, Unfitness{}); c.isEmpty() || c.urgent {
		t.Errorf("changes %+v of links, want them without haste", c)
	}
	if c := apply(a100s(gpu.Healthy, "Xid79"), Unfitness{}); !c.urgent || len(c.conditions) != 1 || c.conditions[0].Reason != "Xid79" {
		t.Errorf("changes %+v of a broken card, want them at once, with a condition", c)
	}
	began := now
	now = metav1.NewTime(now.Add(time.Hour))
	if c := apply(a100s("Lost", "Xid79"), Unfitness{}); len(c.conditions) != 1 || !c.conditions[0].LastTransitionTime.Equal(&began) {
		t.Errorf("changes %+v of a second broken card, want the condition as old as it is", c)
	}
	inventory, err := gpu.ParseInventory(node.Annotations[names.AnnotationInventory])
	if err != nil {
		t.Fatal(err)
	}
	if lost, broken := inventory.GPUs[0].Since, inventory.GPUs[1].Since; !broken.Equal(began.Truncate(time.Second)) || lost.Sub(broken) != time.Hour {
		t.Errorf("the cards are ill since %s and %s, want since each was found so", lost, broken)
	}
	if c := apply(a100s("Lost", "Xid79"), Unfitness{names.ReasonUnfit, "no CDI"}); len(c.conditions) != 1 || c.conditions[0].Status != corev1.ConditionFalse || c.conditions[0].Message != "no CDI" {
		t.Errorf("changes %+v of a node that cannot, want its condition", c)
	}
	if c := apply(a100s(gpu.Healthy, gpu.Healthy), Unfitness{}); len(c.conditions) != 2 || !c.urgent {
		t.Errorf("changes %+v when all is well again, want both conditions", c)
	}
}

// TestANodeThatHasNoCards says so where it has said otherwise, as all have fallen off the bus before the machine's restart.
func TestANodeThatHasNoCards(t *testing.T) {
	none := a100s()
	none.Fleet.Unread = []string{"card 0: finding it: Unknown Error"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		writes      bool
	}{
		"a node that never had one": {nil, false},
		"a node that had":           {map[string]string{names.AnnotationInventory: `{"version":1,"gpus":[{"uuid":"A","index":0,"health":"Healthy"}]}`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := computeChanges(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}, none, nil, readyCondition(Unfitness{}, ""), metav1.Now())
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := c.annotations[names.AnnotationInventory]; ok != tc.writes || ok && !c.urgent {
				t.Errorf("the inventory is written %v (%s), want %v, at once", ok, text, tc.writes)
			}
			health := c.conditions[len(c.conditions)-1]
			if health.Status != corev1.ConditionFalse || health.Reason != "Lost" || health.Message != none.Fleet.Unread[0] {
				t.Errorf("condition %+v, want the card that says nothing", health)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		cards  int
		want   map[string]string
	}{
		"a node that says nothing": {nil, 2, map[string]string{
			names.LabelGPUType: "A100-80G", names.LabelNVIDIAMemory: "81920", names.LabelNVIDIACount: "2", names.LabelInterconnect: "pcie"}},
		"one card has no interconnect": {nil, 1, map[string]string{names.LabelGPUType: "A100-80G", names.LabelNVIDIAMemory: "81920", names.LabelNVIDIACount: "1"}},
		"aliases do": {map[string]string{names.LabelAccelerator: "X", names.LabelMemory: "80Gi", names.LabelCount: "2", names.LabelNVIDIAClique: "c.1"}, 2,
			map[string]string{}},
		"a cloud leaves out the memory": {map[string]string{"karpenter.k8s.aws/instance-gpu-name": "a100", names.LabelAccelerator: names.NoGPUType}, 1,
			map[string]string{names.LabelGPUType: "A100-80G", names.LabelNVIDIAMemory: "81920", names.LabelNVIDIACount: "1"}},
		"a label that cannot be read is left to its author": {map[string]string{names.LabelGPUType: "A", names.LabelMemory: "much", names.LabelCount: "two", names.LabelInterconnect: "x"}, 2,
			map[string]string{}},
		"no card": {nil, 0, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			view := a100s([]string{gpu.Healthy, gpu.Healthy}[:tc.cards]...)
			got := missingLabels(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}, view)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTypeName(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB": "A100-80G", "NVIDIA A100-PCIE-40GB": "A100-40G", "NVIDIA H100 80GB HBM3": "H100-80G", "NVIDIA H200": "H200-141G",
		"Tesla T4": "T4-141G", "NVIDIA L40S": "L40S-141G", "NVIDIA GB200": "GB200-141G", "Mock Card (two)": "Mock-Card-two", "": "", "---": "",
	} {
		if got := typeName(&hardware.GPU{Product: product, MemoryMiB: 143771}); got != want {
			t.Errorf("%q is called %q, want %q", product, got, want)
		}
	}
}

func TestUnfitKubelet(t *testing.T) {
	for version, fit := range map[string]bool{"v1.35.4": true, "v1.31.0": true, "v1.30.9": false, "v1.35.4-gke.100": true, "": true} {
		node := &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version}}}
		if reason := unfitKubelet(node); (reason == "") != fit {
			t.Errorf("kubelet %q: reason %q", version, reason)
		}
	}
}

// TestMIG: a card in MIG mode is given out as slices, and is none of the whole cards of the inventory.
func TestMIG(t *testing.T) {
	view := a100s(gpu.Healthy, "Xid79", gpu.Healthy)
	view.Fleet.GPUs[1].MIG = true
	view.Fleet.GPUs[1].Slices = []hardware.Slice{{UUID: "M1", Profile: "1g.10gb"}, {UUID: "M2", Profile: "3g.40gb"}, {UUID: "M3", Profile: "1g.10gb"}}
	view.Fleet.Links = []gpu.Link{{GPUs: []int{0, 1, 2}, NVLinks: 12}}
	view.SlotsPerGPU = 3
	inventory := view.Inventory()
	if err := inventory.Validate(); err != nil || len(inventory.GPUs) != 2 || len(inventory.Links) != 1 || len(inventory.Links[0].GPUs) != 2 {
		t.Errorf("error %v, inventory %+v; want the two whole cards, and the link between them", err, inventory)
	}
	want := []gpu.SlicedGPU{{
		GPU:    gpu.GPU{UUID: "B", Index: 1, MemoryMiB: 81920, Product: "NVIDIA-A100-SXM4-80GB", Health: "Xid79"},
		Slices: []gpu.GPUSlice{{UUID: "M1", Profile: "1g.10gb"}, {UUID: "M2", Profile: "3g.40gb"}, {UUID: "M3", Profile: "1g.10gb"}},
	}}
	if diff := cmp.Diff(want, inventory.Sliced); diff != "" {
		t.Errorf("cards in MIG mode (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{names.ResourceSharedGPU, names.ResourceGPU, "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"}, view.Resources()); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if slots := view.offersByResource()["nvidia.com/mig-1g.10gb"].buildSlots("nvidia.com/mig-1g.10gb", nil, nil, nil); len(slots) != 2 || slots[0].Healthy || slots[1].Healthy {
		t.Errorf("slots %v, want two, of a broken card", slots)
	}
	if slots := view.offersByResource()[names.ResourceSharedGPU].buildSlots(names.ResourceSharedGPU, nil, nil, nil); len(slots) != 6 {
		t.Errorf("%d slots on 2 cards, want 3 on each", len(slots))
	}
}

// TestOtherSlicesAreToldAtOnce, as those of the inventory are chosen, and since when a card in MIG mode is ill is kept.
func TestOtherSlicesAreToldAtOnce(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	node := &corev1.Node{}
	tell := func(health string, slices ...hardware.Slice) (changes, gpu.Inventory) {
		t.Helper()
		view := a100s(gpu.Healthy, health)
		view.Fleet.GPUs[1].MIG, view.Fleet.GPUs[1].Slices = true, slices
		c, err := computeChanges(node, view, nil, readyCondition(Unfitness{}, ""), now)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.conditions) > 0 {
			node.Status.Conditions = c.conditions
		}
		for key, value := range c.annotations {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value)
		}
		inventory, err := gpu.ParseInventory(node.Annotations[names.AnnotationInventory])
		if err != nil {
			t.Fatal(err)
		}
		return c, inventory
	}
	one, other := hardware.Slice{UUID: "M1", Profile: "1g.10gb"}, hardware.Slice{UUID: "M2", Profile: "1g.10gb"}
	tell(gpu.Healthy, one)
	if c, inventory := tell(gpu.Healthy, other); !c.urgent || inventory.Sliced[0].Slices[0].UUID != "M2" {
		t.Errorf("changes %+v of slices that were made anew, want them at once", c)
	}
	if c, inventory := tell("Xid79", other); !c.urgent || !inventory.Sliced[0].Since.Equal(now.Time) {
		t.Errorf("changes %+v of a broken card in MIG mode, want them at once", c)
	}
	began := now
	now = metav1.NewTime(now.Add(time.Hour))
	if _, inventory := tell("Xid79", one); !inventory.Sliced[0].Since.Equal(began.Time) {
		t.Errorf("the card is ill since %s, want since it was found so", inventory.Sliced[0].Since)
	}
}

// TestSlicesAreTold with who has them, as long as the node has or had any.
func TestSlicesAreTold(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	view := a100s(gpu.Healthy, "Xid79")
	node := &corev1.Node{}
	told := func(view *View, records ...binding.Record) []gpu.Slice {
		t.Helper()
		c, err := computeChanges(node, view, records, readyCondition(Unfitness{}, ""), now)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := c.annotations[names.AnnotationSlices]; ok {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, names.AnnotationSlices, text)
		}
		return gpu.SlicesOf(node)
	}
	if got := told(view); got != nil || node.Annotations[names.AnnotationSlices] != "" {
		t.Errorf("a node without slices tells %+v", got)
	}
	sliced := a100s(gpu.Healthy, "Xid79")
	sliced.Fleet.GPUs[1].MIG = true
	sliced.Fleet.GPUs[1].Slices = []hardware.Slice{{UUID: "M2", Profile: "1g.10gb", MemoryMiB: 9728}, {UUID: "M1", Profile: "1g.10gb"}}
	record := binding.Record{Pod: "uid", Resource: "nvidia.com/mig-1g.10gb", Devices: []gpu.Device{{UUID: "M2", Index: 1}}}
	want := []gpu.Slice{
		{UUID: "M1", Profile: "1g.10gb", ParentUUID: "B", GPU: 1, Health: "Xid79", Since: now.UTC()},
		{UUID: "M2", Profile: "1g.10gb", ParentUUID: "B", GPU: 1, MemoryMiB: 9728, Health: "Xid79", Since: now.UTC(), Pod: "uid"},
	}
	if diff := cmp.Diff(want, told(sliced, record)); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	now = metav1.NewTime(now.Add(time.Hour))
	want[1].Pod = ""
	if diff := cmp.Diff(want, told(sliced)); diff != "" {
		t.Errorf("slices after the pod has ended (-want +got):\n%s", diff)
	}
	if got := told(view); len(got) != 0 || node.Annotations[names.AnnotationSlices] == "" {
		t.Errorf("a node whose slices are gone tells %+v", got)
	}
}

// TestWhatTheConditionSaysOfTheAgent in the situations in which it does not give out cards as the scheduler chooses, or not as kubelet is asked to.
func TestWhatTheConditionSaysOfTheAgent(t *testing.T) {
	reporting := newFitness(Report, slog.New(slog.DiscardHandler))
	reporting.setKubeletReason("kubelet is too old")
	reporting.setRival(names.ResourceGPU, "nvidia.sock")
	if condition, _ := reporting.readyCondition(); condition.Status != corev1.ConditionTrue || condition.Reason != names.ReasonReporting {
		t.Errorf("an agent that reports alone says %+v", condition)
	}
	aligning := newFitness(Serve, slog.New(slog.DiscardHandler))
	_, _, changed := aligning.CurrentState()
	aligning.setAlignment("single-numa-node")
	if condition, _ := aligning.readyCondition(); condition.Status != corev1.ConditionTrue || !strings.Contains(condition.Message, "(policy single-numa-node) does not align") {
		t.Errorf("beside a Topology Manager it says %+v", condition)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is woken to say so")
	}
	if condition := readyCondition(Unfitness{}, kubelet.AlignNothing); strings.Contains(condition.Message, "Topology") {
		t.Errorf("without an alignment it says %+v", condition)
	}
	for label, paused := range map[string]bool{"nvidia.com/gpu.deploy.client": true, "nvidia.com/gpu.deploy.dcgm": true, "nvidia.com/gpu.deploy.device-plugin": false} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: "paused-for-driver-upgrade"}}}
		condition, ok := pausedCondition(node, metav1.Now())
		if ok != paused || ok && (condition.Status != corev1.ConditionFalse || !strings.Contains(condition.Message, label)) {
			t.Errorf("%s: paused %v, %+v", label, ok, condition)
		}
	}
	if _, ok := pausedCondition(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"nvidia.com/gpu.deploy.client": "true"}}}, metav1.Now()); ok {
		t.Error("an operator that works pauses nothing")
	}
}

// TestAReportingAgentKeepsARejectingNodeClosed until kubelet's status can say whether another plugin serves. One that serves itself opens it at once.
func TestAReportingAgentKeepsARejectingNodeClosed(t *testing.T) {
	began := time.Now()
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
		Type: names.ConditionAgentReady, Status: corev1.ConditionFalse, Reason: names.ReasonPodRejected, LastTransitionTime: metav1.NewTime(began),
	}}}}
	serving, reporting := readyCondition(Unfitness{}, ""), reportingCondition()
	for name, tc := range map[string]struct {
		own    corev1.NodeCondition
		seen   time.Duration
		closed bool
	}{
		"it reports, just now":           {own: reporting, seen: time.Second, closed: true},
		"it reports, a while ago":        {own: reporting, seen: rejectionHold},
		"it serves":                      {own: serving, seen: time.Second},
		"it reports, of a node long ago": {own: reporting, seen: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := computeChanges(node, &View{Known: true}, nil, keepRejection(node, tc.own, tc.seen), metav1.NewTime(began.Add(tc.seen)))
			if err != nil {
				t.Fatal(err)
			}
			opened := slices.ContainsFunc(c.conditions, func(is corev1.NodeCondition) bool {
				return is.Type == names.ConditionAgentReady && is.Status == corev1.ConditionTrue
			})
			if opened == tc.closed {
				t.Errorf("the node is opened: %v, want %v; it writes %+v", opened, !tc.closed, c.conditions)
			}
		})
	}
	open := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{serving}}}
	if own := keepRejection(open, reporting, time.Second); own.Reason != names.ReasonReporting {
		t.Errorf("of an open node it says %+v", own)
	}
}

// TestARejectionIsTimedByTheAgentsClock: each closing once, however often the node changes afterwards.
func TestARejectionIsTimedByTheAgentsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpus := newGPUMonitor(&Options{CDIDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, NewMetrics())
		p := &Publisher{gpus: gpus, fitness: newFitness(Report, slog.New(slog.DiscardHandler)), seen: make(chan struct{}, 1)}
		node := func(closedAt time.Time) *corev1.Node {
			return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: names.ConditionAgentReady, Status: corev1.ConditionFalse, Reason: names.ReasonPodRejected, LastTransitionTime: metav1.NewTime(closedAt),
			}}}}
		}
		hourAhead := time.Now().Add(time.Hour) // of gpu-controller's clock
		p.observeNode(node(hourAhead))
		first := p.rejectionSeen
		time.Sleep(time.Minute)
		p.observeNode(node(hourAhead))
		if !p.rejectionSeen.Equal(first) || first.IsZero() {
			t.Errorf("the rejection seen at %s is taken for a new one at %s", first, p.rejectionSeen)
		}
		p.observeNode(node(hourAhead.Add(time.Second)))
		if !p.rejectionSeen.After(first) {
			t.Error("a second rejection counts from the first")
		}
	})
}
