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
			got, share, err := FillPoolShare(doc, PoolShares([]names.GPUPool{pool}, nil))
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
			again, share, err := FillPoolShare(got, map[string]string{"p": "1Gi"}) // a pool that says otherwise later
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

// TestAJobKeepsTheShareOfItsPool when its file is applied again, whatever the pool gives by then: an unchanged file changes nothing.
func TestAJobKeepsTheShareOfItsPool(t *testing.T) {
	const head = "kind: notebook\njob: {name: nb}\nenvironment: {image: jupyter}\nresources: "
	tests := map[string]struct {
		live  string // its resources as the file had them, "" for a job that is not there
		gave  string // what the pool gave it then
		set   string // the share that somebody has set since
		file  string
		want  string
		kept  bool
		noted string // what is noted instead of what it gave
	}{
		"an unchanged file":                         {live: "{pool: p, gpu: 1}", gave: "8Gi", file: "{pool: p, gpu: 1}", want: "8Gi", kept: true},
		"of a pool that gave none":                  {live: "{pool: p, gpu: 1}", file: "{pool: p, gpu: 1}", kept: true},
		"another number of GPUs":                    {live: "{pool: p, gpu: 1}", gave: "8Gi", file: "{pool: p, gpu: 2}", want: "8Gi", kept: true},
		"the same in another unit":                  {live: "{pool: p, gpu: 1}", gave: "8192Mi", file: "{pool: p, gpu: 1}", want: "8192Mi", kept: true},
		"words of its own by now":                   {live: "{pool: p, gpu: 1}", gave: "8Gi", file: "{pool: p, gpu: 1, gpu-share: 2Gi}"},
		"words of its own before":                   {live: "{pool: p, gpu: 1, gpu-share: 2Gi}", file: "{pool: p, gpu: 1}"},
		"whole GPUs by its own words before":        {live: "{pool: p, gpu: 1, gpu-share: 0}", file: "{pool: p, gpu: 1}"},
		"another pool":                              {live: "{pool: q, gpu: 1}", gave: "8Gi", file: "{pool: p, gpu: 1}"},
		"no GPU before":                             {live: "{pool: p, cpu: 1}", file: "{pool: p, gpu: 1}"},
		"slices before":                             {live: "{pool: p, mig: 3g.20gb}", file: "{pool: p, gpu: 1}"},
		"another share set since":                   {live: "{pool: p, gpu: 1}", gave: "8Gi", set: "4Gi", file: "{pool: p, gpu: 1}"},
		"a note that somebody else has written":     {live: "{pool: p, gpu: 1}", gave: "8Gi", noted: "much", file: "{pool: p, gpu: 1}"},
		"a job from before that was noted":          {live: "{pool: p, gpu: 1, gpu-share: 8Gi}", file: "{pool: p, gpu: 1}"},
		"a job that is not there":                   {file: "{pool: p, gpu: 1}"},
		"a file that asks for no GPU, and gave 8Gi": {live: "{pool: p, gpu: 1}", gave: "8Gi", file: "{pool: p, cpu: 1}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var live workload.Document
			if tc.live != "" {
				var err error
				if live, _, err = FillPoolShare(parsed(t, head+tc.live+"\n"), map[string]string{"p": tc.gave, "q": tc.gave}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.set != "" {
				source, err := SetField(live.Source, "resources.gpu-share", tc.set)
				if err != nil {
					t.Fatal(err)
				}
				note := live.PoolShare
				live = parsed(t, source)
				live.PoolShare = note
			}
			if tc.noted != "" {
				live.PoolShare = tc.noted
			}
			doc := parsed(t, head+tc.file+"\n")
			share, kept := KeptShare(live, doc)
			if share != tc.want || kept != tc.kept {
				t.Fatalf("it keeps %q, %t, want %q, %t", share, kept, tc.want, tc.kept)
			}
			if !kept {
				return
			}
			again, _, err := FillPoolShare(doc, map[string]string{"p": share})
			if err != nil {
				t.Fatal(err)
			}
			if tc.live == tc.file && (tc.gave != "" && again.Source != live.Source || again.PoolShare != live.PoolShare) {
				t.Errorf("applied again it is\n%s, noted %q, and was\n%s, noted %q", again.Source, again.PoolShare, live.Source, live.PoolShare)
			}
		})
	}
}

func TestWhatIsToldOfAShare(t *testing.T) {
	for want, tc := range map[string]struct{ share, now string }{
		"": {},
		"pool p gives its jobs gpu-share: 8Gi; gpu-share: 0 asks for whole GPUs":                                      {"8Gi", "8Gi"},
		"it keeps whole GPUs: pool p gives new jobs gpu-share: 8Gi, which the job gets if its file says so":           {"", "8Gi"},
		"it keeps gpu-share: 8Gi, which pool p gave it, and gives new jobs no more; gpu-share: 0 asks for whole GPUs": {"8Gi", ""},
		"it keeps gpu-share: 8Gi, which pool p gave it: new jobs get 16Gi, and so does the job if its file says so":   {"8Gi", "16Gi"},
	} {
		if got := ShareNote("p", tc.share, tc.now).String(); got != want {
			t.Errorf("of %q, now %q, it is told %q, want %q", tc.share, tc.now, got, want)
		}
	}
}
