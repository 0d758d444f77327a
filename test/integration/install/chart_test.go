package install

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTheChartIsWrittenFromTheManifests(t *testing.T) {
	fresh := t.TempDir()
	if err := os.CopyFS(fresh, os.DirFS(manifestsDir)); err != nil {
		t.Fatal(err)
	}
	kubectl, err := filepath.Abs(filepath.Join(tools, "kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "g8s.host/gpu-scheduler/hack/chart", "-kubectl", kubectl, "-manifests", fresh).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if diff := cmp.Diff(files(t, filepath.Join(fresh, "chart")), files(t, chart)); diff != "" {
		t.Errorf("run make generate (-written now +in the tree):\n%s", diff)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"*", "*/*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil { // folders are not read
				found[strings.TrimPrefix(name, dir)] = string(data)
			}
		}
	}
	if len(found) < 10 {
		t.Fatalf("%s has %d files, so the comparison would prove nothing", dir, len(found))
	}
	return found
}

func TestHelmFindsNothingToSayOfTheChart(t *testing.T) {
	for _, values := range [][]string{nil, everything} {
		args := []string{"lint", "--strict", chart}
		for _, value := range values {
			args = append(args, "--set", value)
		}
		if out, err := helm(t, args...); err != nil || strings.Contains(out, "[WARNING]") {
			t.Errorf("%v: %v %s", values, err, out)
		}
	}
}

// nothing turns all off, and everything all on.
var (
	nothing = []string{"crds.install=false", "policies.enabled=false", "scheduler.enabled=false", "controller.enabled=false",
		"agent.enabled=false", "server.enabled=false", "ledger.enabled=false", "spot.enabled=false", "monitoring.enabled=false"}
	everything = []string{"server.enabled=true", "ledger.enabled=true", "spot.enabled=true"}
)

func only(switches ...string) []string {
	values := append([]string(nil), nothing...)
	for _, name := range switches {
		values = append(values, name+"=true")
	}
	return values
}

// TestTheChartAndTheKustomizationsAreTheSame: with each switch, the chart has the objects of the folders, to the last field.
func TestTheChartAndTheKustomizationsAreTheSame(t *testing.T) {
	tests := map[string]struct {
		values  []string
		folders []string
		without []string // kinds
	}{
		"as it is":            {folders: []string{"install"}},
		"everything":          {values: everything, folders: []string{"install", "server", "ledger", "spot"}},
		"nothing":             {values: nothing},
		"the scheduler":       {values: only("crds.install", "policies.enabled", "scheduler.enabled"), folders: []string{"scheduler"}},
		"the controller":      {values: only("controller.enabled"), folders: []string{"controller"}},
		"the agent":           {values: only("agent.enabled"), folders: []string{"agent"}},
		"the server":          {values: only("server.enabled"), folders: []string{"server"}},
		"the ledger":          {values: only("ledger.enabled"), folders: []string{"ledger"}},
		"everything, watched": {values: append(everything, "monitoring.enabled=true"), folders: []string{"install", "server", "ledger", "spot", "monitoring"}},
		"SpotPools":           {values: only("spot.enabled"), folders: []string{"spot"}},
		"CRDs are others":     {values: []string{"crds.install=false"}, folders: []string{"install"}, without: []string{"CustomResourceDefinition"}},
		"no namespace is made": {values: append(only("server.enabled"), "server.createNamespace=false"), folders: []string{"server"},
			without: []string{"Namespace"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := objects{}
			for _, folder := range tc.folders {
				maps.Copy(want, kustomize(t, folder))
			}
			for _, kind := range tc.without {
				maps.DeleteFunc(want, func(_ string, o *unstructured.Unstructured) bool { return o.GetKind() == kind })
			}
			got := template(t, tc.values...)
			for _, object := range got {
				forget(object)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-kustomize +helm):\n%s", diff)
			}
		})
	}
}

// TestThePartsOfTheSchedulersFolderAreApart: its policies can be installed without it, and it without them.
func TestThePartsOfTheSchedulersFolderAreApart(t *testing.T) {
	all := kustomize(t, "scheduler")
	for part, folder := range map[string]string{"crds.install": "crds", "policies.enabled": "policy"} {
		got, want := template(t, only(part)...), kustomize(t, folder)
		for key := range want {
			want[key] = all[key] // with the labels of the scheduler's kustomization
		}
		for _, object := range got {
			forget(object)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s alone (-kustomize +helm):\n%s", part, diff)
		}
		for key := range template(t, only("scheduler.enabled")...) {
			if want[key] != nil {
				t.Errorf("the scheduler alone has %s", key)
			}
		}
	}
}

// TestWhatIsNotThereIsNotWatched: nothing asks for a namespace that nobody made, and no alert waits for what was left out.
func TestWhatIsNotThereIsNotWatched(t *testing.T) {
	for key, object := range template(t, only("monitoring.enabled", "scheduler.enabled")...) {
		watched := object.GetKind() == "ServiceMonitor" || object.GetKind() == "PodMonitor"
		if watched && object.GetName() != "gpu-scheduler" && !strings.HasSuffix(object.GetName(), "dcgm-exporter") || object.GetNamespace() == "gpuctl-server" {
			t.Errorf("with the scheduler alone there is %s", key)
		}
	}
}

const resourcePolicy = "helm.sh/resource-policy"

// forget takes out what is Helm's: that an object stays when the rest goes.
func forget(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	delete(annotations, resourcePolicy)
	if len(annotations) == 0 {
		annotations = nil
	}
	object.SetAnnotations(annotations)
}
