package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func labelled(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func TestNodeLabels(t *testing.T) {
	type facts struct{ Pool, Type, Interconnect string }
	tests := map[string]struct {
		labels map[string]string
		want   facts
	}{
		"a node without labels is in the default pool and of no type": {
			want: facts{Pool: "default"},
		},
		"our label wins over both aliases": {
			labels: map[string]string{
				names.LabelPool: "training", names.LabelGPUType: "A100-80G",
				names.LabelAccelerator: "nvidia-tesla-a100", names.LabelNVIDIAProduct: "NVIDIA-A100-SXM4-80GB",
			},
			want: facts{Pool: "training", Type: "A100-80G"},
		},
		"accelerator wins over what feature discovery writes": {
			labels: map[string]string{names.LabelAccelerator: "nvidia-tesla-a100", names.LabelNVIDIAProduct: "NVIDIA-A100"},
			want:   facts{Pool: "default", Type: "nvidia-tesla-a100"},
		},
		"what a cloud calls it is the last resort": {
			labels: map[string]string{"gpu.nvidia.com/class": "A100_NVLINK_80GB", "karpenter.k8s.aws/instance-gpu-name": "a100"},
			want:   facts{Pool: "default", Type: "a100"},
		},
		"feature discovery's product wins over what a cloud calls it": {
			labels: map[string]string{names.LabelNVIDIAProduct: "Tesla-T4", "cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
			want:   facts{Pool: "default", Type: "Tesla-T4"},
		},
		"that a node has NVIDIA's cards is no type": {
			labels: map[string]string{names.LabelAccelerator: "nvidia", "karpenter.azure.com/sku-gpu-name": "T4"},
			want:   facts{Pool: "default", Type: "T4"},
		},
		"feature discovery's product does where people say nothing": {
			labels: map[string]string{names.LabelNVIDIAProduct: "NVIDIA-A100"},
			want:   facts{Pool: "default", Type: "NVIDIA-A100"},
		},
		"an empty label says nothing": {
			labels: map[string]string{names.LabelPool: "", names.LabelGPUType: "", names.LabelAccelerator: "T4"},
			want:   facts{Pool: "default", Type: "T4"},
		},
		"the interconnect is read without regard to case": {
			labels: map[string]string{names.LabelInterconnect: "NVLink"},
			want:   facts{Pool: "default", Interconnect: names.InterconnectNVLink},
		},
		"a node in an NVLink clique has NVLink": {
			labels: map[string]string{names.LabelNVIDIAClique: "7b968a6d.32766"},
			want:   facts{Pool: "default", Interconnect: names.InterconnectNVLink},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := labelled(tc.labels)
			got := facts{Pool: PoolOf(node), Type: TypeOf(node), Interconnect: InterconnectOf(node)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodPool(t *testing.T) {
	asksGPU := []corev1.Container{gpus("a", "1")}
	tests := map[string]struct {
		labels, selector map[string]string
		containers       []corev1.Container
		want             string
	}{
		"the node selector decides": {
			labels: map[string]string{names.LabelPool: "b"}, selector: map[string]string{names.LabelPool: "a"}, want: "a",
		},
		"the label counts when there is no selector":       {labels: map[string]string{names.LabelPool: "b"}, want: "b"},
		"a GPU pod that names no pool is in the default":   {containers: asksGPU, want: names.DefaultPool},
		"a CPU pod that names no pool is in none":          {want: ""},
		"a pod whose request is malformed still asks GPUs": {containers: []corev1.Container{gpus("a", "-1")}, want: names.DefaultPool},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Labels: tc.labels},
				Spec:       corev1.PodSpec{NodeSelector: tc.selector, Containers: tc.containers},
			}
			if got := PodPool(pod); got != tc.want {
				t.Errorf("PodPool() = %q, want %q", got, tc.want)
			}
		})
	}
}

func in(key string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
	}}
}

func required(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func manyTypes(count int) []string {
	types := make([]string, count)
	for i := range types {
		types[i] = fmt.Sprintf("T%d", i)
	}
	return types
}

func TestPodTypes(t *testing.T) {
	tests := map[string]struct {
		annotation string
		spec       corev1.PodSpec
		want       Types
		wantNames  []string
	}{
		"a pod that says nothing takes any type": {},
		"the annotation is an ordered list, blanks allowed": {
			annotation: "A100-80G, A800-80G",
			want:       Types{Accepted: []string{"A100-80G", "A800-80G"}},
			wantNames:  []string{"A100-80G", "A800-80G"},
		},
		"a node selector on an alias names a type": {
			spec:      corev1.PodSpec{NodeSelector: map[string]string{names.LabelAccelerator: "T4", "zone": "z"}},
			want:      Types{Selected: [][]string{{"T4"}}},
			wantNames: []string{"T4"},
		},
		"selector and required affinity must both hold": {
			spec: corev1.PodSpec{
				NodeSelector: map[string]string{names.LabelGPUType: "A"},
				Affinity:     required(in(names.LabelAccelerator, "x"), in(names.LabelAccelerator, "y")),
			},
			want:      Types{Selected: [][]string{{"A"}, {"x", "y"}}},
			wantNames: []string{"A"},
		},
		"an alternative without a type admits every type": {
			spec: corev1.PodSpec{Affinity: required(in(names.LabelAccelerator, "x"), in("zone", "z"))},
		},
		"preferred affinity is a wish, the heaviest first": {
			spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 1, Preference: in(names.LabelGPUType, "B")},
					{Weight: 9, Preference: in(names.LabelGPUType, "A")},
				},
			}}},
			want: Types{Preferred: []string{"A", "B"}},
		},
		"the most types that the annotation may have": {
			annotation: strings.Join(manyTypes(names.MaxGPUTypes), ","),
			want:       Types{Accepted: manyTypes(names.MaxGPUTypes)},
			wantNames:  manyTypes(names.MaxGPUTypes),
		},
		"required affinity with too many types is left to NodeAffinity": {
			spec: corev1.PodSpec{Affinity: required(in(names.LabelGPUType, manyTypes(names.MaxGPUTypes+1)...))},
		},
		"so are alternatives with too many together": {
			spec: corev1.PodSpec{Affinity: required(in(names.LabelGPUType, manyTypes(names.MaxGPUTypes)...), in(names.LabelGPUType, "B"))},
		},
		"and a value that no label can hold": {
			spec: corev1.PodSpec{Affinity: required(in(names.LabelGPUType, "B", strings.Repeat("x", 64)))},
		},
		"of wishes only the heaviest count": {
			spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 1, Preference: in(names.LabelGPUType, "B")},
					{Weight: 9, Preference: in(names.LabelGPUType, manyTypes(names.MaxGPUTypes)...)},
				},
			}}},
			want: Types{Preferred: manyTypes(names.MaxGPUTypes)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tc.spec}
			if tc.annotation != "" {
				pod.Annotations = map[string]string{names.AnnotationGPUTypes: tc.annotation}
			}
			got, err := PodTypes(pod)
			if err != nil {
				t.Fatalf("PodTypes: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("types (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantNames, got.AcceptedNames()); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if got.IsAny() != (len(tc.wantNames) == 0) {
				t.Errorf("IsAny() = %v with names %v", got.IsAny(), tc.wantNames)
			}
		})
	}
}

func TestPodTypesRefuses(t *testing.T) {
	tests := map[string]struct{ value, want string }{
		"nothing":                        {"", "want types separated by commas"},
		"gaps alone":                     {",", "want types separated by commas"},
		"a gap at the end":               {"A100-80G,", "want types separated by commas"},
		"a gap between":                  {"A,,B", "want types separated by commas"},
		"blanks":                         {"  ", "want types separated by commas"},
		"one type too many":              {strings.Join(manyTypes(names.MaxGPUTypes+1), ","), "has 33 types, want at most 32"},
		"as many as an annotation holds": {strings.Repeat("x,", 128<<10), "has 131073 types, want at most 32"},
		"a type with a blank":            {"A100 80G", `has type "A100 80G", which no node label can hold`},
		"a type longer than a label":     {strings.Repeat("x", 256<<10), "which no node label can hold"},
		"a long text of blanks":          {strings.Repeat(" ", 256<<10), "want types separated by commas"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationGPUTypes: tc.value}}}
			_, err := PodTypes(pod)
			if err == nil || !strings.Contains(err.Error(), names.AnnotationGPUTypes) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("PodTypes returned %v, want an error that names the annotation and says %q", err, tc.want)
			}
			if len(err.Error()) > 400 {
				t.Errorf("the error has %d bytes, want one that a person reads", len(err.Error()))
			}
		})
	}
}

func TestTypesMatch(t *testing.T) {
	both := labelled(map[string]string{names.LabelGPUType: "A100-80G", names.LabelNVIDIAProduct: "NVIDIA-A100"})
	tests := map[string]struct {
		types Types
		node  *corev1.Node
		want  bool
	}{
		"any type matches a node without GPUs":             {node: labelled(nil), want: true},
		"an accepted type is the node's type":              {types: Types{Accepted: []string{"B", "A100-80G"}}, node: both, want: true},
		"an accepted type is not one that our label hides": {types: Types{Accepted: []string{"NVIDIA-A100"}}, node: both},
		"a selector may name any type label":               {types: Types{Selected: [][]string{{"NVIDIA-A100"}}}, node: both, want: true},
		"every selector must hold":                         {types: Types{Selected: [][]string{{"NVIDIA-A100"}, {"B"}}}, node: both},
		"matching is exact":                                {types: Types{Accepted: []string{"A100"}}, node: both},
		"a selector does not match a node without type":    {types: Types{Selected: [][]string{{""}}}, node: labelled(nil)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.types.MatchesNode(tc.node); got != tc.want {
				t.Errorf("Match() = %v, want %v", got, tc.want)
			}
		})
	}
}
