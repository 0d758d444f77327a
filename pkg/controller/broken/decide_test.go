package broken

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// holder is a pod of two containers: main has GPU-0, and beside has GPU-1, which is well.
func holder(health string, ago time.Duration, change ...func(*Holder)) Holder {
	out := Holder{
		Node: "n1",
		Pod:  &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Annotations: map[string]string{}}},
		GPUs: []gpu.GPU{{UUID: "GPU-0", Health: health, Since: noon.Add(-ago)}},
	}
	text, err := gpu.Assignment{"main": {{UUID: "GPU-0"}}, "beside": {{UUID: "GPU-1", Index: 1}}}.Encode()
	if err != nil {
		panic(err)
	}
	out.Pod.Annotations[g8s.AnnotationGPUDevices] = text
	for _, c := range change {
		c(&out)
	}
	return out
}

func on(node string) func(*Holder) { return func(h *Holder) { h.Node = node } }

func waiting(container, why string) func(*Holder) {
	return func(h *Holder) {
		h.Pod.Status.ContainerStatuses = append(h.Pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why}},
		})
	}
}

func kept(h *Holder) { h.Pod.Annotations[g8s.AnnotationNoMigration] = g8s.True }

// sliced has the pod hold a slice of the card, and no card whole.
func sliced(h *Holder) {
	delete(h.Pod.Annotations, g8s.AnnotationGPUDevices)
	h.Pod.Spec.Containers = []corev1.Container{
		{Name: "plain"},
		{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{g8s.ResourceMIGPrefix + "1g.10gb": resource.MustParse("1")}}},
	}
}

func TestDecide(t *testing.T) {
	settings := Settings{After: 10 * time.Second, Budget: 20}
	dead := fault.XIDWord(79)
	several := func(nodes int, ago time.Duration) (out []Holder) {
		for i := range nodes {
			out = append(out, holder(dead, ago, on(fmt.Sprintf("n%d", i))))
		}
		return out
	}
	apart := func(nodes int, each time.Duration) (out []Holder) {
		for i := range nodes {
			out = append(out, holder(dead, time.Minute+time.Duration(i)*each, on(fmt.Sprintf("n%d", i))))
		}
		return out
	}
	tests := map[string]struct {
		holders []Holder
		nodes   int
		// left is how long ago cards broke of nodes that nobody holds any more.
		left     []time.Duration
		settings *Settings
		// evicted and held count.
		evicted, held int
		again         time.Duration
	}{
		"a pod on a card that fell off the bus has its time": {holders: []Holder{holder(dead, 4*time.Second)}, again: 6 * time.Second},
		"and leaves after that":                              {holders: []Holder{holder(dead, 10*time.Second)}, evicted: 1},
		"or never, where an administrator says so":           {holders: []Holder{holder(dead, time.Hour)}, settings: &Settings{Budget: 20}},
		"the driver's word counts as an XID does":            {holders: []Holder{holder(fault.ResetRequired, time.Minute)}, evicted: 1},
		"heat passes, and the program computes":              {holders: []Holder{holder(fault.TooHot, time.Hour)}},
		"a driver that did not answer may have been busy":    {holders: []Holder{holder(fault.Lost, time.Hour)}},
		"an error of a program takes no card":                {holders: []Holder{holder(fault.XIDWord(31), time.Hour)}},
		"a container that is refused waits in vain, whatever it is": {
			holders: []Holder{holder(fault.TooHot, 0, waiting("main", "CreateContainerConfigError"))}, evicted: 1,
		},
		"as one does that has crashed":              {holders: []Holder{holder(dead, 0, waiting("main", "CrashLoopBackOff"))}, evicted: 1},
		"one that fetches its image does not yet":   {holders: []Holder{holder(fault.TooHot, 0, waiting("main", "ContainerCreating"))}},
		"nor one whose own card is well":            {holders: []Holder{holder(fault.TooHot, 0, waiting("beside", "CreateContainerConfigError"))}},
		"nor one without a card":                    {holders: []Holder{holder(fault.TooHot, 0, waiting("plain", "CreateContainerConfigError"))}},
		"one with a slice of the card does":         {holders: []Holder{holder(fault.TooHot, 0, sliced, waiting("main", "CreateContainerConfigError"))}, evicted: 1},
		"beside one without":                        {holders: []Holder{holder(fault.TooHot, 0, sliced, waiting("plain", "CreateContainerConfigError"))}},
		"a person decides where a pod is kept":      {holders: []Holder{holder(dead, time.Hour, kept)}, held: 1},
		"also of one that cannot start":             {holders: []Holder{holder(dead, 0, kept, waiting("main", "CrashLoopBackOff"))}, held: 1},
		"cards of two in ten nodes":                 {holders: several(2, time.Minute), nodes: 10, evicted: 2},
		"cards of three in ten nodes are too many":  {holders: several(3, time.Minute), nodes: 10, held: 3},
		"and it is no better because it lasts":      {holders: several(3, 2*time.Hour), nodes: 10, held: 3},
		"but not where each broke by itself":        {holders: apart(3, 2*time.Hour), nodes: 10, evicted: 3},
		"one after the other, the first have left":  {holders: several(1, time.Minute), left: []time.Duration{20 * time.Minute, 40 * time.Minute}, nodes: 10, held: 1},
		"those of long ago say nothing of today":    {holders: several(1, time.Minute), left: []time.Duration{2 * time.Hour, 2 * time.Hour}, nodes: 10, evicted: 1},
		"one always may":                            {holders: several(1, time.Minute), nodes: 2, evicted: 1},
		"many pods of one node are one node":        {holders: []Holder{holder(dead, time.Hour), holder(dead, time.Minute)}, nodes: 2, evicted: 2},
		"who cannot start is no loss, however many": {holders: append(several(2, time.Minute), holder(dead, 0, on("n9"), waiting("main", "CrashLoopBackOff"))), nodes: 10, evicted: 1, held: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			with := settings
			if tc.settings != nil {
				with = *tc.settings
			}
			pool := Pool{Nodes: max(tc.nodes, 1), LastBroken: map[string]time.Time{}}
			for i := range tc.holders {
				if at := lastBroken(tc.holders[i].GPUs); at.After(pool.LastBroken[tc.holders[i].Node]) {
					pool.LastBroken[tc.holders[i].Node] = at
				}
			}
			for i, ago := range tc.left {
				pool.LastBroken[fmt.Sprintf("left%d", i)] = noon.Add(-ago)
			}
			steps, again := Decide(tc.holders, pool, with, noon)
			evicted, held := 0, 0
			for _, step := range steps {
				if step.Evict {
					evicted++
				}
				if step.Held != "" {
					held++
				}
				if step.Why == "" || step.Evict == (step.Held != "") {
					t.Errorf("got step %+v", step)
				}
			}
			if diff := cmp.Diff([]any{tc.evicted, tc.held, tc.again}, []any{evicted, held, again}); diff != "" {
				t.Errorf("evicted, held, again (-want +got):\n%s", diff)
			}
		})
	}
}
