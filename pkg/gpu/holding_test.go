package gpu

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestHoldingOf(t *testing.T) {
	const oneDevice = `{"version":1,"containers":{"a":[{"uuid":"GPU-01","index":1}]}}`
	onCard1 := Holding{Shared: singleGPU(1), ShareMiB: 2000}
	onCard1.slots[1] = 1
	cases := map[string]struct {
		container   corev1.Container
		annotations map[string]string
		want        Holding
		wantErr     string
	}{
		"the annotation names the card": {
			container: gpus("a", "1"), annotations: map[string]string{names.AnnotationGPUDevices: oneDevice},
			want: Holding{Whole: singleGPU(1)},
		},
		"no annotation, so it could be any": {
			container: gpus("a", "2"), want: Holding{Unknown: Unknown{Whole: 2}},
		},
		"an annotation of another pod": {
			container: gpus("a", "2"), annotations: map[string]string{names.AnnotationGPUDevices: oneDevice},
			want:    Holding{Unknown: Unknown{Whole: 2}},
			wantErr: "reading annotation g8s.host/gpu-devices: container a: it has 1 whole",
		},
		"a malformed annotation": {
			container: gpus("a", "1"), annotations: map[string]string{names.AnnotationGPUDevices: "{"},
			want: Holding{Unknown: Unknown{Whole: 1}}, wantErr: "reading annotation g8s.host/gpu-devices: unexpected end",
		},
		"a pod without GPUs cannot take one by an annotation": {
			container:   asking("a", map[corev1.ResourceName]string{"cpu": "1"}),
			annotations: map[string]string{names.AnnotationGPUDevices: oneDevice},
		},
		"a share that was edited later is still what was given": {
			container: slots("a", "1"), annotations: map[string]string{
				names.AnnotationGPUShare:   "garbage",
				names.AnnotationGPUDevices: `{"version":1,"containers":{"a":[{"uuid":"GPU-01","index":1,"memoryMiB":2000}]}}`,
			},
			want: onCard1,
		},
		"a share of unknown size on an unknown card is all of a card": {
			container: slots("a", "1"), annotations: map[string]string{names.AnnotationGPUShare: "garbage"},
			want: Holding{Unknown: Unknown{Shared: 1, ShareMiB: maxMemoryMiB}},
		},
		"a request that overflows holds the whole node": {
			container: gpus("a", "9223372036854775807"), want: Holding{Unknown: Unknown{Whole: MaxGPUs + 1}},
		},
		"a request that is no number holds the whole node": {
			container: gpus("a", "1.5"), want: Holding{Unknown: Unknown{Whole: MaxGPUs + 1}},
		},
		"a request that is no number holds the whole node, whatever slices the annotation names": {
			container: gpus("a", "1.5"), annotations: map[string]string{
				names.AnnotationGPUDevices: `{"version":1,"slices":{"a":[{"uuid":"MIG-1","profile":"1g.10gb","card":"GPU-01","gpu":1}]}}`,
			},
			want: Holding{Unknown: Unknown{Whole: MaxGPUs + 1}}, wantErr: "names slices and no cards",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			pod.Spec.Containers = []corev1.Container{tc.container}
			got, err := allocatorOf(t, inventory(4)).HoldingOf(pod)
			if !errorHas(err, tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
