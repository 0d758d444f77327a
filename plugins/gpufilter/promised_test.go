package gpufilter

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/cycle"
)

// TestWhatAPodLeavesBesideAPromise: who fits beside what was promised of a node is tried when others leave CPU or memory there alone, and
// whom that does not help is not.
func TestWhatAPodLeavesBesideAPromise(t *testing.T) {
	node := gpuNode("a1", "a", "A100-80G")
	node.Status.Allocatable[corev1.ResourceCPU], node.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("64"), resource.MustParse("512Gi")
	now := time.Now()
	asks := func(gpus, cpu string) *st.PodWrapper {
		return st.MakePod().Name("pod").UID("pod").Label(names.LabelPool, "a").CreationTimestamp(metav1.NewTime(now)).
			Req(map[corev1.ResourceName]string{names.ResourceGPU: gpus, corev1.ResourceCPU: cpu})
	}
	holds := func(on, cpu, memory string) *corev1.Pod {
		return st.MakePod().Name("other").UID("other").Node(on).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}).Obj()
	}
	limited := asks("4", "8").Obj()
	limited.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	tests := map[string]struct {
		waits         *corev1.Pod
		before, after any
		want          fwk.QueueingHint
	}{
		"CPU comes free":                      {waits: asks("4", "8").Obj(), before: holds("a1", "8", "1Gi"), want: fwk.Queue},
		"for a pod without GPUs":              {waits: asks("0", "8").Obj(), before: holds("a1", "8", "1Gi"), want: fwk.Queue},
		"a pod is scaled down":                {waits: asks("4", "8").Obj(), before: holds("a1", "8", "1Gi"), after: holds("a1", "4", "1Gi"), want: fwk.Queue},
		"a nomination is given up":            {waits: asks("4", "8").Obj(), before: nominatedTo("a1", holds("", "8", "1Gi")), want: fwk.Queue},
		"memory, which it does not ask for":   {waits: asks("4", "8").Obj(), before: holds("a1", "0", "64Gi")},
		"nothing comes free":                  {waits: asks("4", "8").Obj(), before: holds("a1", "0", "0")},
		"the promise leaves too few GPUs":     {waits: asks("5", "8").Obj(), before: holds("a1", "8", "1Gi")},
		"the promise leaves too little CPU":   {waits: asks("4", "40").Obj(), before: holds("a1", "8", "1Gi")},
		"on another node":                     {waits: asks("4", "8").Obj(), before: holds("a2", "8", "1Gi")},
		"it is in another pool":               {waits: asks("4", "8").Label(names.LabelPool, "b").Obj(), before: holds("a1", "8", "1Gi")},
		"it is gone by then":                  {waits: limited, before: holds("a1", "8", "1Gi")},
		"it comes first":                      {waits: asks("4", "8").Priority(9).Obj(), before: holds("a1", "8", "1Gi")},
		"a pod that cannot be read waits":     {waits: asks("-1", "8").Obj(), before: holds("a1", "8", "1Gi")},
		"the node is gone, too":               {waits: asks("4", "8").Obj(), before: holds("a9", "8", "1Gi")},
		"another pod gets a label, somewhere": {waits: asks("4", "8").Obj(), before: holds("", "8", "1Gi"), after: holds("", "8", "1Gi")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{}, node, gpuNode("a2", "a", "A100-80G"))
			plugin.startReservations = backfill.NewStartReservations(func() time.Time { return now })
			plugin.startReservations.SetPositionFunc(func(pod *corev1.Pod) backfill.QueuePosition {
				return backfill.QueuePosition{Job: pod.Name, Priority: ptr.Deref(pod.Spec.Priority, 0), Since: pod.CreationTimestamp.Time}
			})
			if got, err := plugin.afterPodChange(klog.Background(), tc.waits, tc.before, tc.after); err != nil || got != fwk.QueueSkip {
				t.Errorf("where nothing is promised the hint is %v, %v", got, err)
			}
			plugin.startReservations.ReserveStart(&backfill.StartReservation{QueuePosition: backfill.QueuePosition{Job: "large", Since: now.Add(-time.Hour)}, At: now.Add(time.Hour), Places: map[string]backfill.NodeReservation{
				"a1": {Needs: []cycle.ResourceRequest{{Resource: names.ResourceGPU, Amount: 4}, {Resource: corev1.ResourceCPU, Amount: 32_000}, {Resource: corev1.ResourceMemory, Amount: 1 << 30}}},
			}})
			if got, err := plugin.afterPodChange(klog.Background(), tc.waits, tc.before, tc.after); err != nil || got != tc.want {
				t.Errorf("hint %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}
