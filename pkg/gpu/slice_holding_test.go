package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const choiceOfTwo = `{"version":1,"containers":{"main":[{"uuid":"GPU-9","index":9}]},` +
	`"slices":{"main":[{"uuid":"MIG-0-1","profile":"1g.10gb","card":"GPU-0","gpu":0}]}}`

func TestParseChoice(t *testing.T) {
	want := Choice{
		GPUs:   Assignment{"main": {{UUID: "GPU-9", Index: 9}}},
		Slices: SliceAssignment{"main": {{UUID: "MIG-0-1", Profile: "1g.10gb", ParentUUID: "GPU-0"}}},
	}
	got, err := ParseChoice(choiceOfTwo)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, choice (-want +got):\n%s", err, diff)
	}
	if text, err := got.Encode(); err != nil || text != choiceOfTwo {
		t.Errorf("written again it is %s, error %v", text, err)
	}
	const alone = `{"version":1,"slices":{"a":[{"uuid":"M","profile":"1g","card":"G","gpu":0}]}}`
	if cards, err := ParseAssignment(alone); err != nil || len(cards) != 0 {
		t.Errorf("a pod with slices alone has the cards %v, error %v", cards, err)
	}
	for what, text := range map[string]string{
		"neither":             `{"version":1}`,
		"a container of none": strings.Replace(alone, `[{"uuid":"M","profile":"1g","card":"G","gpu":0}]`, "[]", 1),
		"no profile":          strings.Replace(alone, `"profile":"1g",`, "", 1),
		"no card":             strings.Replace(alone, `"card":"G",`, "", 1),
		"another number":      strings.Replace(alone, `"gpu":0`, `"gpu":-1`, 1),
		"another version":     strings.Replace(alone, `:1,"s`, `:2,"s`, 1),
		"an unknown field":    strings.Replace(alone, `"gpu":0`, `"gpu":0,"later":1`, 1),
		"no container's name": strings.Replace(alone, `"a":`, `"A b":`, 1),
		"a slice twice": strings.Replace(alone, `"gpu":0}`,
			`"gpu":0},{"uuid":"M","profile":"1g","card":"G","gpu":0}`, 1),
	} {
		if got, err := ParseChoice(text); err == nil {
			t.Errorf("%s: read as %+v", what, got)
		}
	}
}

// TestOlderReadersTakeNoSliceForACard: they refuse fields that they do not know, so that the pod counts as one that names nothing.
func TestOlderReadersTakeNoSliceForACard(t *testing.T) {
	choice := Choice{Slices: SliceAssignment{"a": {{UUID: "MIG-1", Profile: "1g.10gb", ParentUUID: "GPU-1"}}}}
	text, err := choice.Encode()
	if err != nil || strings.Contains(text, "containers") {
		t.Errorf("it is %s, error %v", text, err)
	}
	cards := Choice{GPUs: Assignment{"a": {{UUID: "GPU-1"}}}}
	if text, err := cards.Encode(); err != nil || text != `{"version":1,"containers":{"a":[{"uuid":"GPU-1","index":0}]}}` {
		t.Errorf("a pod of cards is %s, error %v, which older readers cannot read", text, err)
	}
}

func TestSlicedInventory(t *testing.T) {
	inv := slicedInventory("LS", "")
	inv.GPUs = []GPU{{UUID: "GPU-9", Index: 9, Health: Healthy}}
	text, err := inv.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseInventory(text)
	if diff := cmp.Diff(inv, got); err != nil || diff != "" {
		t.Errorf("error %v, inventory (-want +got):\n%s", err, diff)
	}
	for what, change := range map[string]func(*Inventory){
		"a card that is also whole":  func(inv *Inventory) { inv.GPUs[0].Index = 1 },
		"a card twice":               func(inv *Inventory) { inv.Sliced[1].UUID = "GPU-9" },
		"a slice twice":              func(inv *Inventory) { inv.Sliced[1].Slices = inv.Sliced[0].Slices[:1] },
		"a slice that is a card":     func(inv *Inventory) { inv.Sliced[0].Slices[0].UUID = "GPU-0" },
		"another order":              func(inv *Inventory) { slices.Reverse(inv.Sliced) },
		"a profile of a stranger":    func(inv *Inventory) { inv.Sliced[0].Slices[0].Profile = "1g; rm" },
		"a card without health":      func(inv *Inventory) { inv.Sliced[0].Health = "" },
		"memory that none has":       func(inv *Inventory) { inv.Sliced[0].Slices[0].MemoryMiB = -1 },
		"more slices than there are": func(inv *Inventory) { inv.Sliced[0].Slices = make([]GPUSlice, maxSlicesPerGPU+1) },
		"more cards than there are":  func(inv *Inventory) { inv.GPUs = make([]GPU, MaxGPUs-1) },
	} {
		changed, err := ParseInventory(text)
		if err != nil {
			t.Fatal(err)
		}
		if change(&changed); changed.Validate() == nil {
			t.Errorf("%s: taken for valid", what)
		}
	}
}

// slicePod asks for slices of 1g.10gb in its container main.
func slicePod(count int64, annotation string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{names.ResourceMIGPrefix + "1g.10gb": *resource.NewQuantity(count, resource.DecimalSI)},
	}}}
	if annotation != "" {
		pod.Annotations = map[string]string{names.AnnotationGPUDevices: annotation}
	}
	return pod
}

func TestSlicesHeldBy(t *testing.T) {
	chosen := func(uuids ...string) string {
		held := SliceAssignment{}
		for _, uuid := range uuids {
			held["main"] = append(held["main"], HeldSlice{UUID: uuid, Profile: "1g.10gb", ParentUUID: "GPU-0"})
		}
		choice := Choice{Slices: held}
		text, err := choice.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	report := func(pod string, uuids ...string) []Slice {
		var out []Slice
		for _, uuid := range uuids {
			out = append(out, Slice{UUID: uuid, Pod: "p"})
			out[len(out)-1].Pod = "other"
			if pod == "p" {
				out[len(out)-1].Pod = "p"
			}
		}
		return out
	}
	tests := map[string]struct {
		pod      *corev1.Pod
		reported []Slice
		want     []string
		unknown  int64
	}{
		"what the annotation names":                             {pod: slicePod(2, chosen("MIG-0-0", "MIG-0-2")), want: []string{"MIG-0-0", "MIG-0-2"}},
		"which comes before a report":                           {pod: slicePod(1, chosen("MIG-0-0")), reported: report("p", "MIG-0-1"), want: []string{"MIG-0-0"}},
		"without one, what the agent reports":                   {pod: slicePod(1, ""), reported: report("p", "MIG-0-1"), want: []string{"MIG-0-1"}},
		"that of another pod says nothing":                      {pod: slicePod(1, ""), reported: report("other", "MIG-0-1"), unknown: 1},
		"nothing is known yet":                                  {pod: slicePod(2, ""), unknown: 2},
		"a slice that was made anew is what the agent reports":  {pod: slicePod(2, chosen("MIG-0-0", "MIG-gone")), reported: report("p", "MIG-0-3"), want: []string{"MIG-0-0", "MIG-0-3"}},
		"and unknown until then":                                {pod: slicePod(2, chosen("MIG-0-0", "MIG-gone")), want: []string{"MIG-0-0"}, unknown: 1},
		"one that names fewer than it asks for names none":      {pod: slicePod(2, chosen("MIG-0-0")), unknown: 2},
		"nor does one that names more":                          {pod: slicePod(1, chosen("MIG-0-0", "MIG-0-1")), unknown: 1},
		"nor one of another container":                          {pod: slicePod(1, strings.Replace(chosen("MIG-0-0"), `"main"`, `"other"`, 1)), unknown: 1},
		"nor one of another profile":                            {pod: slicePod(1, strings.Replace(chosen("MIG-0-0"), "1g.10gb", "3g.40gb", 1)), unknown: 1},
		"nor one that cannot be read":                           {pod: slicePod(1, "{}"), unknown: 1},
		"a pod that asks for none holds none, whatever it says": {pod: slicePod(0, chosen("MIG-0-0"))},
		"one that asks for more than any node has":              {pod: slicePod(1<<62, ""), unknown: maxSlices + 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := allocatorOf(t, slicedInventory("SSSS"))
			held := a.SlicesHeldBy(tc.pod, func() []Slice { return tc.reported })
			if held == nil {
				held = &SliceHolding{}
			}
			if diff := cmp.Diff(tc.want, a.named(held)); diff != "" || held.unknown["1g.10gb"] != tc.unknown {
				t.Errorf("%d unknown, want %d, slices (-want +got):\n%s", held.unknown["1g.10gb"], tc.unknown, diff)
			}
		})
	}
}

// TestTwoContainersWithOneSlice: an annotation that gives a slice to two containers that run at once is none.
func TestTwoContainersWithOneSlice(t *testing.T) {
	one := []HeldSlice{{UUID: "MIG-0-0", Profile: "1g.10gb", ParentUUID: "GPU-0"}}
	for lifetime, want := range map[Lifetime]bool{Main: false, Sidecar: false, Init: true} {
		d := &Demand{Slices: []SliceDemand{
			{Container: "a", Lifetime: lifetime, Profile: "1g.10gb", Count: 1}, {Container: "b", Profile: "1g.10gb", Count: 1},
		}}
		d.Profiles = profilePeaks(d.Slices)
		a := allocatorOf(t, slicedInventory("SS"))
		if got := a.ResolveSlices(d, SliceAssignment{"a": one, "b": one}); got.IsKnown() != want {
			t.Errorf("lifetime %d: held %+v, want it known %v", lifetime, got, want)
		}
	}
}
