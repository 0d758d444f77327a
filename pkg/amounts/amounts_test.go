package amounts

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestBound(t *testing.T) {
	tests := map[string]struct{ amount, want string }{
		"a core":                         {"1", "1"},
		"a part of one":                  {"100m", "100m"},
		"memory":                         {"64Gi", "64Gi"},
		"nothing":                        {"0", "0"},
		"negative":                       {"-1", "-1"},
		"the most of 63 bits":            {"9223372036854775807", "9223372036854775807"},
		"an exponent that is in use":     {"1e9", "1e9"},
		"a small fraction":               {"1n", "1n"},
		"an exponent beyond all bounds":  {"1e9999999", "9223372036854775"},
		"a negative one":                 {"-1e9999999", "-9223372036854775"},
		"one that never ends":            {"1e999999999", "9223372036854775"},
		"nothing, with such an exponent": {"0e999999999", "0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			amount, err := resource.ParseQuantity(tc.amount)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			list := corev1.ResourceList{corev1.ResourceCPU: amount}
			boundList(list)
			got := list[corev1.ResourceCPU]
			if got.CmpInt64(1) > 0 && got.Sign() < 0 {
				t.Error("the amount is above and below nothing")
			}
			if text := got.String(); text != tc.want {
				t.Errorf("%s becomes %s, want %s", tc.amount, text, tc.want)
			}
			if took := time.Since(began); took > time.Second/2 {
				t.Errorf("it takes %s", took)
			}
		})
	}
}

// TestEveryAmountOfAnObjectIsBound fills all lists of amounts that the scheduler reads: a
// list that is forgotten is one that a user finds.
func TestEveryAmountOfAnObjectIsBound(t *testing.T) {
	list := func() corev1.ResourceList { return corev1.ResourceList{"x": resource.MustParse("1e9999999")} }
	one := func() *resource.Quantity { return ptr.To(resource.MustParse("1e9999999")) }
	requirements := func() *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: list(), Limits: list()}
	}
	status := func() corev1.ContainerStatus {
		return corev1.ContainerStatus{AllocatedResources: list(), Resources: requirements()}
	}
	objects := map[string]any{
		"pod": &corev1.Pod{
			Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Resources: *requirements()}}, Containers: []corev1.Container{{Resources: *requirements()}},
				Resources: requirements(), Overhead: list(),
			},
			Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{status()}, ContainerStatuses: []corev1.ContainerStatus{status()},
				AllocatedResources: list(), Resources: requirements(),
				NodeAllocatableResourceClaimStatuses: []corev1.NodeAllocatableResourceClaimStatus{{
					Mapping:  []corev1.NodeAllocatableMappedResources{{Quantity: one()}},
					Overhead: []corev1.NodeAllocatableOverheadResources{{PerPod: one(), PerContainer: one()}},
				}},
			},
		},
		"node":   &corev1.Node{Status: corev1.NodeStatus{Capacity: list(), Allocatable: list()}},
		"volume": &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{Capacity: list()}},
		"claim": &corev1.PersistentVolumeClaim{
			Spec:   corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: list(), Limits: list()}},
			Status: corev1.PersistentVolumeClaimStatus{Capacity: list(), AllocatedResources: list()},
		},
	}
	for name, object := range objects {
		t.Run(name, func(t *testing.T) {
			Bound(object)
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "e9999999") || !strings.Contains(string(text), "9223372036854775") {
				t.Errorf("amounts are left:\n%s", text)
			}
		})
	}
	Bound(nil)
	Bound(&corev1.Service{})
}

// TestEveryAmountOfDevicesAndStorageIsBound fills each field there is of kinds of which the scheduler reads all: a field
// that a new version of Kubernetes has is tried as well.
func TestEveryAmountOfDevicesAndStorageIsBound(t *testing.T) {
	for name, object := range map[string]any{
		"claim": &resourcev1.ResourceClaim{}, "slice": &resourcev1.ResourceSlice{}, "storage": &storagev1.CSIStorageCapacity{},
	} {
		t.Run(name, func(t *testing.T) {
			Bound(object) // with nothing in it
			if filled := fill(reflect.ValueOf(object).Elem()); filled < 2 {
				t.Fatalf("%d amounts to bound", filled)
			}
			Bound(object)
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "e9999999") || !strings.Contains(string(text), "9223372036854775") {
				t.Errorf("amounts are left:\n%s", text)
			}
		})
	}
}

// fill puts one element into each list and map of a value, and an amount beyond all bounds wherever one can be. It
// returns how many.
func fill(v reflect.Value) (filled int) {
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		v.Set(reflect.ValueOf(resource.MustParse("1e9999999")))
		return 1
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(v.Index(0))
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		filled = fill(element)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), element)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch field.Type {
			case reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[*runtime.RawExtension](), reflect.TypeFor[runtime.RawExtension]():
				continue // they hold no amounts
			}
			if field.IsExported() {
				filled += fill(v.Field(i))
			}
		}
	}
	return filled
}

func BenchmarkBound(b *testing.B) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Gi"), "nvidia.com/gpu": resource.MustParse("8")},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("64Gi"), "nvidia.com/gpu": resource.MustParse("8")},
	}}}}}
	b.ReportAllocs()
	for b.Loop() {
		Bound(pod)
	}
}
