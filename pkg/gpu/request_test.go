package gpu

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// asking returns a container that requests the given quantities, by resource name.
func asking(name string, quantities map[corev1.ResourceName]string) corev1.Container {
	requests := corev1.ResourceList{}
	for resourceName, quantity := range quantities {
		requests[resourceName] = apiresource.MustParse(quantity)
	}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests}}
}

func gpus(name, quantity string) corev1.Container {
	return asking(name, map[corev1.ResourceName]string{names.ResourceGPU: quantity})
}

func sidecar(container corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	container.RestartPolicy = &always
	return container
}

func limited(name, quantity string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{names.ResourceGPU: apiresource.MustParse(quantity)},
	}}
}

func TestRequestOf(t *testing.T) {
	tests := map[string]struct {
		spec corev1.PodSpec
		want Request
	}{
		"a pod without GPUs asks for none": {
			spec: corev1.PodSpec{Containers: []corev1.Container{asking("a", map[corev1.ResourceName]string{"cpu": "4"})}},
		},
		"main containers run together, so they add up": {
			spec: corev1.PodSpec{Containers: []corev1.Container{gpus("a", "1"), gpus("b", "2")}},
			want: Request{Whole: 3},
		},
		"an init container is gone before the main ones start, so the larger counts": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{gpus("init", "4")},
				Containers:     []corev1.Container{gpus("a", "1"), gpus("b", "2")},
			},
			want: Request{Whole: 4},
		},
		"a sidecar runs beside the main containers": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar(gpus("proxy", "1"))},
				Containers:     []corev1.Container{gpus("a", "2")},
			},
			want: Request{Whole: 3},
		},
		"an init container runs beside the sidecars started before it, not after it": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar(gpus("early", "1")), gpus("init", "4"), sidecar(gpus("late", "2"))},
				Containers:     []corev1.Container{gpus("a", "1")},
			},
			want: Request{Whole: 5},
		},
		"overhead is added to the peak": {
			spec: corev1.PodSpec{
				Overhead:   corev1.ResourceList{names.ResourceGPU: apiresource.MustParse("1")},
				Containers: []corev1.Container{gpus("a", "2")},
			},
			want: Request{Whole: 3},
		},
		"a limit alone is a request, as the API server defaults it": {
			spec: corev1.PodSpec{Containers: []corev1.Container{limited("a", "2")}},
			want: Request{Whole: 2},
		},
		"whole GPUs, shared slots and MIG slices are counted apart": {
			spec: corev1.PodSpec{Containers: []corev1.Container{asking("a", map[corev1.ResourceName]string{
				names.ResourceGPU: "1", names.ResourceSharedGPU: "2",
				names.ResourceMIGPrefix + "1g.10gb": "3", names.ResourceMIGPrefix + "2g.20gb": "1",
			})}},
			want: Request{Whole: 1, Shared: 2, MIG: 4},
		},
		"the largest number of GPUs is still a number": {
			spec: corev1.PodSpec{Containers: []corev1.Container{gpus("a", "9223372036854775807")}},
			want: Request{Whole: math.MaxInt64},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := RequestOf(&corev1.Pod{Spec: tc.spec})
			if err != nil {
				t.Fatalf("RequestOf: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if got.IsZero() != (tc.want == Request{}) {
				t.Errorf("IsZero() = %v for %+v", got.IsZero(), got)
			}
		})
	}
}

func TestRequestOfRefuses(t *testing.T) {
	const most = "9223372036854775807"
	shared := func(quantity string) corev1.Container {
		return asking("s", map[corev1.ResourceName]string{names.ResourceSharedGPU: quantity})
	}
	tests := map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"two containers whose sum would wrap to -2": {
			spec: corev1.PodSpec{Containers: []corev1.Container{limited("a", most), limited("b", most)}},
			want: "the sum of nvidia.com/gpu over all containers exceeds 9223372036854775807",
		},
		"shared slots that wrap": {
			spec: corev1.PodSpec{Containers: []corev1.Container{shared(most), shared("1")}},
			want: "the sum of g8s.host/shared-gpu over all containers exceeds 9223372036854775807",
		},
		"an init container that wraps together with a sidecar": {
			spec: corev1.PodSpec{InitContainers: []corev1.Container{sidecar(gpus("a", "1")), gpus("b", most)}},
			want: "the sum of nvidia.com/gpu",
		},
		"overhead that wraps": {
			spec: corev1.PodSpec{
				Overhead:   corev1.ResourceList{names.ResourceGPU: apiresource.MustParse("1")},
				Containers: []corev1.Container{gpus("a", most)},
			},
			want: "the sum of nvidia.com/gpu",
		},
		"a negative count": {
			spec: corev1.PodSpec{Containers: []corev1.Container{gpus("a", "-1")}},
			want: `reading container "a": nvidia.com/gpu is "-1", want a whole number of GPUs from 0 to 2^63-1`,
		},
		"half a GPU": {
			spec: corev1.PodSpec{Containers: []corev1.Container{gpus("a", "500m")}},
			want: `nvidia.com/gpu is "500m"`,
		},
		"more than 63 bits in one container": {
			spec: corev1.PodSpec{Containers: []corev1.Container{gpus("a", "9223372036854775808")}},
			want: `nvidia.com/gpu is "9223372036854775808"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := RequestOf(&corev1.Pod{Spec: tc.spec})
			if err == nil {
				t.Fatalf("RequestOf returned %+v, want an error", got)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %q, want it to contain %q", err, tc.want)
			}
			if got.IsZero() {
				t.Error("the request is zero; a caller that overlooks the error would place the pod anywhere")
			}
		})
	}
}

// TestRequestOfAgreesWithKubernetes compares with the sum that kubelet and kube-scheduler use, on pods
// whose sum does not overflow.
func TestRequestOfAgreesWithKubernetes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		pod := randomPod(random)
		sums := resource.PodRequests(pod, resource.PodResourcesOptions{})
		whole, shared := sums[names.ResourceGPU], sums[names.ResourceSharedGPU]
		want := Request{Whole: whole.Value(), Shared: shared.Value()}
		got, err := RequestOf(pod)
		if err != nil {
			t.Fatalf("RequestOf: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("request of %+v (-want +got):\n%s", pod.Spec, diff)
		}
	}
}

func randomPod(random *rand.Rand) *corev1.Pod {
	quantity := func() apiresource.Quantity { return *apiresource.NewQuantity(random.Int64N(9), apiresource.DecimalSI) }
	container := func() corev1.Container {
		requests := corev1.ResourceList{}
		if random.IntN(2) == 0 {
			requests[names.ResourceGPU] = quantity()
		}
		if random.IntN(2) == 0 {
			requests[names.ResourceSharedGPU] = quantity()
		}
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests}}
	}
	pod := &corev1.Pod{}
	for range random.IntN(4) {
		pod.Spec.Containers = append(pod.Spec.Containers, container())
	}
	for range random.IntN(4) {
		init := container()
		if random.IntN(2) == 0 {
			init = sidecar(init)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if random.IntN(3) == 0 {
		pod.Spec.Overhead = corev1.ResourceList{names.ResourceGPU: quantity()}
	}
	return pod
}
