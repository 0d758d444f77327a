package jobplan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func parsed(t *testing.T, text string) workload.Document {
	t.Helper()
	docs, diagnostics := workload.Parse("", []byte(text))
	if diagnostics.HasErrors() || len(docs) != 1 {
		t.Fatalf("%v", diagnostics)
	}
	return docs[0]
}

func TestAJobGetsTheShareOfItsPool(t *testing.T) {
	const head = "kind: notebook\njob: {name: nb}\nenvironment: {image: jupyter}\n"
	tests := map[string]struct {
		resources string
		share     string // that of pool p
		want      string // that the job gets, "" for whole GPUs
		fills     bool
		fails     string
	}{
		"it says nothing of it":             {resources: "{pool: p, gpu: 1}", share: "8Gi", want: "8Gi", fills: true},
		"several GPUs, of each as much":     {resources: "{pool: p, gpu: 4, gpu-type: A100-80G}", share: "8Gi", want: "8Gi", fills: true},
		"its own words":                     {resources: "{pool: p, gpu: 1, gpu-share: 2Gi}", share: "8Gi", want: "2Gi"},
		"its own words, in another writing": {resources: "{pool: p, gpu: 1, gpuShare: 2Gi}", share: "8Gi", want: "2Gi"},
		"whole GPUs, in its own words":      {resources: "{pool: p, gpu: 1, gpu-share: 0}", share: "8Gi"},
		"MIG slices":                        {resources: "{pool: p, mig: 3g.20gb}", share: "8Gi"},
		"no GPU":                            {resources: "{pool: p, cpu: 1}", share: "8Gi"},
		"another pool":                      {resources: "{pool: q, gpu: 1}", share: "8Gi"},
		"a pool that gives none":            {resources: "{pool: p, gpu: 1}"},
		"what is no amount":                 {resources: "{pool: p, gpu: 1}", share: "some", fails: `GPUPool p gives its jobs a gpu-share of "some": it does not go with the job`},
		"less than can be asked":            {resources: "{pool: p, gpu: 1}", share: "1k", fails: "is less than 1Mi"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			doc := parsed(t, head+"resources: "+tc.resources+" # mine\n")
			doc.Line, doc.Filled = 7, "{cpu: 1}"
			pool := names.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: names.GPUPoolSpec{Defaults: names.PoolDefaults{GPUShare: tc.share}}}
			got, share, err := Shared(doc, PoolShares([]names.GPUPool{pool}, nil))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("error %v, want %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			has := ""
			if got.Job.Resources.GPUShare != nil {
				has = got.Job.Resources.GPUShare.String()
			}
			if has != tc.want || (share != "") != tc.fills || got.Line != 7 || got.Filled != "{cpu: 1}" || !strings.Contains(got.Source, "# mine") {
				t.Errorf("it gets %q, filled %q: %+v", has, share, got)
			}
			again, share, err := Shared(got, map[string]string{"p": "1Gi"}) // a pool that says otherwise later
			if tc.fills && (err != nil || share != "" || again.Source != got.Source) {
				t.Errorf("later it gets %q, error %v", share, err)
			}
			reread := parsed(t, got.Source) // as it is kept with the job
			if diff := cmp.Diff(got.Job.Resources, reread.Job.Resources); diff != "" {
				t.Errorf("what is kept of it (-filled +kept):\n%s", diff)
			}
		})
	}
}

// TestWhatIsWrittenOfPoolsGoesBefore what is said of them now, also that there is no share any more.
func TestWhatIsWrittenOfPoolsGoesBefore(t *testing.T) {
	now := []names.GPUPool{}
	for _, name := range []string{"stays", "changes", "ends"} {
		now = append(now, names.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: names.GPUPoolSpec{Defaults: names.PoolDefaults{GPUShare: "1Gi"}}})
	}
	docs := []workload.Document{
		parsed(t, "kind: pool\nmetadata: {name: changes}\nnodes: {n1: {}}\ndefaults: {gpu-share: 2Gi}\n"),
		parsed(t, "kind: pool\nmetadata: {name: ends}\nnodes: {n2: {}}\n"),
		parsed(t, "kind: pool\nmetadata: {name: begins}\nnodes: {n3: {}}\ndefaults: {gpu-share: 3Gi}\n"),
	}
	if diff := cmp.Diff(map[string]string{"stays": "1Gi", "changes": "2Gi", "begins": "3Gi"}, PoolShares(now, docs)); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
}
