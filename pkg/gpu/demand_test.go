package gpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func slots(name, quantity string) corev1.Container {
	return asking(name, map[corev1.ResourceName]string{names.ResourceSharedGPU: quantity})
}

func TestDemandOf(t *testing.T) {
	cases := map[string]struct {
		spec        corev1.PodSpec
		annotations map[string]string
		want        Demand
	}{
		"a pod without GPUs asks for none, whatever its annotations say": {
			spec:        corev1.PodSpec{Containers: []corev1.Container{asking("a", map[corev1.ResourceName]string{"cpu": "1"})}},
			annotations: map[string]string{names.AnnotationGPUShare: "nonsense"},
		},
		"only containers that ask are listed, by name": {
			spec: corev1.PodSpec{Containers: []corev1.Container{gpus("train", "4"), asking("log", nil)}},
			want: Demand{Request: Request{Whole: 4}, Containers: []ContainerDemand{{Name: "train", Whole: 4}}},
		},
		"containers come in the order in which they start": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{gpus("prepare", "2"), sidecar(gpus("watch", "1")), gpus("warm", "3")},
				Containers:     []corev1.Container{gpus("train", "2")},
			},
			want: Demand{Request: Request{Whole: 4}, Containers: []ContainerDemand{
				{Name: "prepare", Lifetime: Init, Whole: 2}, {Name: "watch", Lifetime: Sidecar, Whole: 1},
				{Name: "warm", Lifetime: Init, Whole: 3}, {Name: "train", Whole: 2},
			}},
		},
		"a share names its memory": {
			spec:        corev1.PodSpec{Containers: []corev1.Container{slots("a", "2")}},
			annotations: map[string]string{names.AnnotationGPUShare: "2Gi"},
			want:        Demand{Request: Request{Shared: 2}, ShareMiB: 2048, Containers: []ContainerDemand{{Name: "a", Shared: 2}}},
		},
		"on nodes that share nothing, the share is kept and whole GPUs are asked": {
			spec:        corev1.PodSpec{Containers: []corev1.Container{gpus("a", "1")}},
			annotations: map[string]string{names.AnnotationGPUShare: "2Gi"},
			want:        Demand{Request: Request{Whole: 1}, ShareMiB: 2048, Containers: []ContainerDemand{{Name: "a", Whole: 1}}},
		},
		"a minimum of memory": {
			spec:        corev1.PodSpec{Containers: []corev1.Container{gpus("a", "1")}},
			annotations: map[string]string{names.AnnotationGPUMemoryMin: "40Gi"},
			want:        Demand{Request: Request{Whole: 1}, MemoryMinMiB: 40960, Containers: []ContainerDemand{{Name: "a", Whole: 1}}},
		},
		"MIG slices are counted and take no card": {
			spec: corev1.PodSpec{Containers: []corev1.Container{asking("a", map[corev1.ResourceName]string{"nvidia.com/mig-1g.10gb": "2"})}},
			want: Demand{
				Request: Request{MIG: 2}, Slices: []SliceDemand{{Container: "a", Profile: "1g.10gb", Count: 2}},
				Profiles: []ProfileDemand{{Profile: "1g.10gb", Count: 2}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DemandOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}, Spec: tc.spec})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("demand (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDemandOfARefusedPod(t *testing.T) {
	one := corev1.PodSpec{Containers: []corev1.Container{gpus("a", "1")}}
	cases := map[string]struct {
		spec        corev1.PodSpec
		annotations map[string]string
		wantErr     string
	}{
		"a share without a unit": {
			spec: one, annotations: map[string]string{names.AnnotationGPUShare: "2048"},
			wantErr: `reading annotation g8s.host/gpu-share: "2048" is less than 1Mi`,
		},
		"a minimum of memory that is a word": {
			spec: one, annotations: map[string]string{names.AnnotationGPUMemoryMin: "plenty"},
			wantErr: `reading annotation g8s.host/gpu-memory-min: "plenty" is no amount of memory`,
		},
		"an empty annotation is not an absent one": {
			spec: one, annotations: map[string]string{names.AnnotationGPUMemoryMin: ""}, wantErr: "is no amount of memory",
		},
		"shared GPUs without the memory": {
			spec:    corev1.PodSpec{Containers: []corev1.Container{slots("a", "1")}},
			wantErr: "without annotation g8s.host/gpu-share: add it",
		},
		"two containers that sum to a negative number of GPUs": {
			spec:    corev1.PodSpec{Containers: []corev1.Container{gpus("a", "9223372036854775807"), gpus("b", "9223372036854775807")}},
			wantErr: "exceeds 9223372036854775807",
		},
		"overhead that no container could use": {
			spec:    corev1.PodSpec{Containers: one.Containers, Overhead: corev1.ResourceList{names.ResourceGPU: apiresource.MustParse("1")}},
			wantErr: "the pod's overhead asks for GPUs",
		},
		"more containers than can be told apart": {
			spec: corev1.PodSpec{Containers: manyContainers(MaxContainers + 1)}, wantErr: "33 containers ask for GPUs, want at most 32",
		},
		"more containers with slices than can be told apart": {
			spec: corev1.PodSpec{Containers: manySliced(MaxContainers + 1)}, wantErr: "33 containers ask for MIG slices, want at most 32",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DemandOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}, Spec: tc.spec})
			if !errorHas(err, tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
			if _, reason := allocatorOf(t, nvSwitch(64)).Allocate(&Used{}, &got); reason.IsZero() {
				t.Error("the demand that comes with the error fits a node")
			}
		})
	}
}

func manyContainers(n int) []corev1.Container {
	containers := make([]corev1.Container, n)
	for i := range containers {
		containers[i] = gpus(fmt.Sprintf("c%d", i), "1")
	}
	return containers
}

func manySliced(n int) []corev1.Container {
	containers := make([]corev1.Container, n)
	for i := range containers {
		containers[i] = asking(fmt.Sprintf("c%d", i), map[corev1.ResourceName]string{names.ResourceMIGPrefix + "1g.10gb": "1"})
	}
	return containers
}

// TestContainersPeakAtTheRequest holds the two ways to count against each other.
func TestContainersPeakAtTheRequest(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 2000 {
		var spec corev1.PodSpec
		for i := range r.IntN(5) {
			container := gpus(fmt.Sprintf("init%d", i), fmt.Sprint(r.IntN(4)))
			if r.IntN(2) == 0 {
				container = sidecar(container)
			}
			spec.InitContainers = append(spec.InitContainers, container)
		}
		for i := range r.IntN(4) {
			spec.Containers = append(spec.Containers, gpus(fmt.Sprintf("main%d", i), fmt.Sprint(r.IntN(4))))
		}
		demand, err := DemandOf(&corev1.Pod{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		byContainer := Demand{Containers: demand.Containers}
		if byContainer.wholePeak() != demand.Whole {
			t.Fatalf("the containers %+v peak at %d, and the request is %d", demand.Containers, byContainer.wholePeak(), demand.Whole)
		}
	}
}
