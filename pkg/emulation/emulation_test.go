package emulation

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
)

// of is a version, nil for "".
func of(text string) *version.Version {
	if text == "" {
		return nil
	}
	return version.MustParseGeneric(text)
}

func TestChoose(t *testing.T) {
	tests := map[string]struct{ own, server, flag, want, by, fail string }{
		"the same":                             {own: "1.37.2", server: "1.37.0", want: "1.37", by: "the release"},
		"a server that is newer":               {own: "1.35.4", server: "1.37.2", want: "1.35", by: "the release"},
		"a server that is older":               {own: "1.37.2", server: "1.36.3", want: "1.36", by: "the API server"},
		"the oldest server":                    {own: "1.37.2", server: "1.34.4", want: "1.34", by: "the API server"},
		"a patch version that is older":        {own: "1.35.4", server: "1.35.0", want: "1.35", by: "the release"},
		"a server that is too old":             {own: "1.37.2", server: "1.33.9", fail: "the API server is Kubernetes 1.33, and this scheduler can behave as 1.34 at the oldest"},
		"a server from before all of this":     {own: "1.33.0", server: "1.30.1", fail: "1.31 at the oldest"},
		"a server that did not answer":         {own: "1.37.2", want: "1.37", by: "the release"},
		"a flag":                               {own: "1.37.2", server: "1.36.3", flag: "1.35", want: "1.35", by: "--emulated-version"},
		"a flag that is newer than the server": {own: "1.37.2", server: "1.34.3", flag: "1.37", want: "1.37", by: "--emulated-version"},
		"a flag, and a server too old":         {own: "1.37.2", server: "1.30.3", flag: "1.34", want: "1.34", by: "--emulated-version"},
		"a flag, and no answer":                {own: "1.37.2", flag: "1.36", want: "1.36", by: "--emulated-version"},
		"the next major version":               {own: "1.37.2", server: "2.0", want: "1.37", by: "the release"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Choose(of(tc.own), of(tc.server), of(tc.flag))
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("got %v and %v, want an error with %q", got, err, tc.fail)
				}
				return
			}
			if err != nil || got.Version.String() != tc.want || string(got.By) != tc.by {
				t.Errorf("got %v by %q and %v, want %s by %s", got.Version, got.By, err, tc.want, tc.by)
			}
		})
	}
}

func TestOfServer(t *testing.T) {
	tests := map[string]struct {
		info apiversion.Info
		want string
	}{
		"as Kubernetes says it":           {apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.4"}, "1.34"},
		"a cloud's":                       {apiversion.Info{Major: "1", Minor: "34+", GitVersion: "v1.34.2-eks-abc"}, "1.34"},
		"another cloud's":                 {apiversion.Info{Major: "1", Minor: "35", GitVersion: "v1.35.0-gke.1234000"}, "1.35"},
		"with where it was built":         {apiversion.Info{GitVersion: "v1.36.1+k3s1"}, "1.36"},
		"in two numbers":                  {apiversion.Info{GitVersion: "1.34+"}, "1.34"},
		"in its numbers alone":            {apiversion.Info{Major: "1", Minor: "34+", GitVersion: "banana"}, "1.34"},
		"from sources without a version":  {apiversion.Info{Major: "1", Minor: "37+", GitVersion: "v0.0.0-master+$Format:%H$"}, "1.37"},
		"one that emulates an older one":  {apiversion.Info{Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "36", GitVersion: "v1.37.2"}, "1.36"},
		"an emulation that is no version": {apiversion.Info{EmulationMajor: "one", EmulationMinor: "36", GitVersion: "v1.37.2"}, "1.37"},
		"before 1.0, which none is":       {apiversion.Info{Major: "0", Minor: "34", GitVersion: "v0.0.0-master"}, ""},
		"words":                           {apiversion.Info{Major: "one", Minor: "two", GitVersion: "banana"}, ""},
		"a number that is none":           {apiversion.Info{GitVersion: "v1.99999999999999999999"}, ""},
		"nothing":                         {apiversion.Info{}, ""},
		"a long text":                     {apiversion.Info{GitVersion: strings.Repeat("x", 1<<20)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ServerVersion(&tc.info)
			if tc.want == "" {
				if err == nil || len(err.Error()) > 100 {
					t.Errorf("got %v and %v, want a short error", got, err)
				}
				return
			}
			if err != nil || got.String() != tc.want {
				t.Errorf("got %v and %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestFlag(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "1.34": "1.34", "v1.36": "1.36", "kube=1.35": "1.35", "wardle=1.2,kube=1.34": "1.34", "wardle=1.2": "", "banana": "",
		" 1.34 ": "1.34", //nolint:gocritic // the spaces are what is tried
	} {
		if got := ParseFlag(value); (got == nil) != (want == "") || got != nil && got.String() != want {
			t.Errorf("%q is %v, want %q", value, got, want)
		}
	}
}

// TestTheFloorIsThatOfKubernetes asks Kubernetes' own rule on both sides of ours.
func TestTheFloorIsThatOfKubernetes(t *testing.T) {
	floor := Floor(OwnVersion())
	effective := compatibility.DefaultBuildEffectiveVersion()
	for emulated, valid := range map[*version.Version]bool{floor: true, floor.SubtractMinor(1): false} {
		effective.SetEmulationVersion(emulated)
		if errs := effective.Validate(); (len(errs) == 0) != valid {
			t.Errorf("emulating %s is refused for %v", emulated, errs)
		}
	}
}

// TestOwnIsWhatIsLinked compares with the version of Kubernetes in go.mod, which the Makefile stamps the scheduler with.
func TestOwnIsWhatIsLinked(t *testing.T) {
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\tk8s\.io/kubernetes v(\d+\.\d+)\.`).FindSubmatch(module)
	if found == nil || string(found[1]) != OwnVersion().String() {
		t.Errorf("the release is of %s, and go.mod has %s", OwnVersion(), found)
	}
}
