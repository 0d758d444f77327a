package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
)

const smallProfile = "1g.10gb"

// slicesOf waits until a pod of one container is bound, and returns the MIG slices that are written on it.
func (e *env) slicesOf(pod string) []string {
	e.Helper()
	bound := e.waitPod(pod, "to be bound", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	var uuids []string
	for _, slice := range gpu.ChosenSlices(bound) {
		uuids = append(uuids, slice.UUID)
	}
	return uuids
}

// cut is the inventory of a node of cards, all in MIG mode with two slices, of which some are broken.
func cut(t *testing.T, node string, cards int, broken ...int) string {
	t.Helper()
	memory, all := make([]int64, cards), make([]int, cards)
	for i := range all {
		memory[i], all[i] = 81920, i
	}
	return fixture.Cards(node, memory...).Unhealthy(broken...).Sliced(smallProfile, 2, all...).Annotation(t)
}

func sliceUUID(node string, card, slice int) string {
	return fixture.SliceUUID(fixture.UUID(node, card), slice)
}

// TestSlicesAreWrittenOnThePod: the first card is filled before the next one is begun, also by a scheduler that has restarted, and a pod
// that ends gives its slices back.
func TestSlicesAreWrittenOnThePod(t *testing.T) {
	e := newEnv(t)
	judge := e.record()
	e.createNodes(fixture.Node("mig").Slices(smallProfile, 4).Annotate(names.AnnotationInventory, cut(t, "mig", 2)).Obj())
	e.createPods(fixture.Pod("a").Slices(smallProfile, 1).Obj())
	if diff := cmp.Diff([]string{sliceUUID("mig", 0, 0)}, e.slicesOf("a")); diff != "" {
		t.Errorf("slices of the first pod (-want +got):\n%s", diff)
	}
	e.createPods(fixture.Pod("b").Slices(smallProfile, 2).Obj())
	if diff := cmp.Diff([]string{sliceUUID("mig", 0, 1), sliceUUID("mig", 1, 0)}, e.slicesOf("b")); diff != "" {
		t.Errorf("slices of the second pod (-want +got):\n%s", diff)
	}
	endScheduler(t, (*sandbox.Process).Kill)
	restartScheduler(t, sandbox.SchedulerOptions{})
	e.createPods(fixture.Pod("c").Slices(smallProfile, 1).Obj())
	if diff := cmp.Diff([]string{sliceUUID("mig", 1, 1)}, e.slicesOf("c")); diff != "" {
		t.Errorf("slices after a restart of the scheduler (-want +got):\n%s", diff)
	}
	e.createPods(fixture.Pod("d").Slices(smallProfile, 1).Obj())
	if message := e.waitUnschedulable("d"); !strings.Contains(message, "Insufficient nvidia.com/mig-1g.10gb") {
		t.Errorf("the scheduler says %q", message)
	}
	began := time.Now()
	e.finish("a")
	if diff := cmp.Diff([]string{sliceUUID("mig", 0, 0)}, e.slicesOf("d")); diff != "" {
		t.Errorf("slices of the pod that waited (-want +got):\n%s", diff)
	}
	if took := time.Since(began); took > soon {
		t.Errorf("it was bound %v after another had ended, want at most %v", took, soon)
	}
	judge()
}

// TestNoPodComesToSlicesOfABrokenCard, though kubelet still counts them, until the card is well.
func TestNoPodComesToSlicesOfABrokenCard(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("mig").Slices(smallProfile, 4).Annotate(names.AnnotationInventory, cut(t, "mig", 2, 0)).Obj())
	e.createPods(fixture.Pod("small").Slices(smallProfile, 1).Obj())
	if diff := cmp.Diff([]string{sliceUUID("mig", 1, 0)}, e.slicesOf("small")); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	e.createPods(fixture.Pod("large").Slices(smallProfile, 2).Obj())
	e.waitUnschedulable("large")
	e.updateNode("mig", func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, names.AnnotationInventory, cut(t, "mig", 2))
	})
	if diff := cmp.Diff([]string{sliceUUID("mig", 0, 0), sliceUUID("mig", 1, 1)}, e.slicesOf("large")); diff != "" {
		t.Errorf("slices when the card is well (-want +got):\n%s", diff)
	}
}

// TestAPodOfHigherPriorityGetsSlices of those who are evicted for it.
func TestAPodOfHigherPriorityGetsSlices(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("mig").Slices(smallProfile, 2).Annotate(names.AnnotationInventory, cut(t, "mig", 1)).Obj())
	e.createPods(withClass(fixture.Pod("low").Slices(smallProfile, 2), names.PriorityClassLow))
	e.slicesOf("low")
	e.createPods(withClass(fixture.Pod("high").Slices(smallProfile, 1), names.PriorityClassHigh))
	if diff := cmp.Diff([]string{sliceUUID("mig", 0, 0)}, e.slicesOf("high")); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
}

// TestOlderAgentsChooseSlices: of a node that names none, none is chosen, and its pods run as before.
func TestOlderAgentsChooseSlices(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("old").Slices(smallProfile, 2).Annotate(names.AnnotationInventory, `{"version":1,"gpus":null}`).Obj())
	e.createPods(fixture.Pod("p").Slices(smallProfile, 2).Obj())
	if got := e.slicesOf("p"); got != nil {
		t.Errorf("chosen are %v", got)
	}
}
