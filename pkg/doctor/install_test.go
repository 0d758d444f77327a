package doctor

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// whole is a cluster in which all is installed and well.
func whole() Installation {
	f := Installation{Facts: healthy(), Configs: []string{configPrefix + "a"}, Mounted: configPrefix + "a"}
	f.Groups, f.Controller = []string{groupAllocation}, f.Lease.DeepCopy()
	f.Rights = []Right{{Verb: "create", Kind: "deployments", Allowed: true}}
	f.Policies, f.Bindings = slices.Clone(installedPolicies), slices.Clone(installedPolicies)
	for name := range installedCRDs {
		f.CRDs = append(f.CRDs, CRD{Name: name, Established: true, Served: []string{"v1alpha1"}, Stored: []string{"v1alpha1"}})
	}
	for _, c := range installable {
		f.Workloads = append(f.Workloads, Workload{Kind: c.kind, Namespace: c.namespace, Name: c.name, Desired: 2, Ready: 2, Image: "r:5000/" + c.name + ":v1"})
	}
	return f
}

// fresh is a cluster in which nothing is installed.
func fresh() Installation {
	f := whole()
	f.Policies, f.Bindings, f.CRDs, f.Workloads, f.Configs, f.Mounted, f.NoLists, f.Lease, f.Controller = nil, nil, nil, nil, nil, "", true, nil, nil
	return f
}

func TestExamineInstallation(t *testing.T) {
	type finding struct {
		Status Status
		Text   string // a part of it
	}
	notInstalled := map[string]finding{
		"CRDs":     {Warning, "not installed: gpupools.g8s.host, gpuquotas.g8s.host, gpureservations.g8s.host, podgroups.scheduling.x-k8s.io, spotpools.g8s.host"},
		"policies": {Warning, "not installed"}, "gpu-scheduler": {Warning, "not installed"},
	}
	with := func(more map[string]finding) map[string]finding {
		all := maps.Clone(notInstalled)
		maps.Copy(all, more)
		return all
	}
	tests := map[string]struct {
		from   func() Installation
		change func(*Installation)
		want   map[string]finding // those that are not ok
	}{
		"all is well":             {whole, func(*Installation) {}, nil},
		"before an installation":  {fresh, func(*Installation) {}, notInstalled},
		"an old Kubernetes":       {fresh, func(f *Installation) { f.Server = "v1.33.9-eks-1" }, with(map[string]finding{"Kubernetes": {Failed, "needs 1.34"}})},
		"the oldest that is fit":  {whole, func(f *Installation) { f.Server = "v1.34.0" }, nil},
		"the newest that is fit":  {whole, func(f *Installation) { f.Server = "v1.37.9+k3s1" }, nil},
		"a Kubernetes to come":    {whole, func(f *Installation) { f.Server = "v1.38.0-rc.1" }, map[string]finding{"Kubernetes": {Warning, "1.37 is the newest"}}},
		"no version at all":       {whole, func(f *Installation) { f.Server = "mine" }, map[string]finding{"Kubernetes": {Warning, "cannot be read"}}},
		"no policies' API":        {fresh, func(f *Installation) { f.NoPolicies = true }, with(map[string]finding{"policies' API": {Failed, "no ValidatingAdmissionPolicies"}})},
		"no resource claims' API": {whole, func(f *Installation) { f.Groups = nil }, map[string]finding{"resource claims' API": {Failed, "not served"}}},
		"who may not install": {fresh, func(f *Installation) { f.Rights[0].Allowed = false },
			with(map[string]finding{"your rights to install": {Failed, "you may not create deployments"}})},
		"who may not upgrade": {whole, func(f *Installation) { f.Rights[0].Allowed = false }, map[string]finding{"your rights to install": {Warning, "cannot upgrade"}}},
		"a namespace is still going": {fresh, func(f *Installation) {
			f.Namespaces[0].Name, f.Namespaces[0].Status.Phase = serverName, corev1.NamespaceTerminating
		}, with(map[string]finding{"namespaces": {Failed, "gpuctl-server is being deleted"}})},
		"another's namespace is going": {whole, func(f *Installation) { f.Namespaces[0].Status.Phase = corev1.NamespaceTerminating }, nil},
		"a CRD of another version": {whole, func(f *Installation) { f.CRDs[0].Served = []string{"v1beta1"} },
			map[string]finding{"CRDs": {Failed, "has no version v1alpha1, only v1beta1"}}},
		"a CRD whose name is taken": {whole, func(f *Installation) { f.CRDs[0].Established = false }, map[string]finding{"CRDs": {Failed, "is not established"}}},
		"objects of an old version": {whole, func(f *Installation) { f.CRDs[0].Stored = []string{"v1alpha0", "v1alpha1"} },
			map[string]finding{"CRDs": {Warning, "stored in the versions v1alpha0, v1alpha1"}}},
		"policies of an older release": {whole, func(f *Installation) { f.Policies = f.Policies[1:] }, map[string]finding{"policies": {Warning, "missing, as in an older release: g8s-access"}}},
		"policies without a binding":   {whole, func(f *Installation) { f.Bindings = f.Bindings[1:] }, map[string]finding{"policies": {Warning, "do nothing: g8s-access"}}},
		"policies the server warns of": {whole, func(f *Installation) { f.Suspect = []string{"g8s-pods"} }, map[string]finding{"policies": {Warning, "expressions in g8s-pods"}}},
		"a channel that leads nowhere": {whole, func(f *Installation) { f.Channels, f.Addressed = []string{"ml", "ops"}, []string{"ops", "old"} },
			map[string]finding{"channels": {Warning, "so that nobody is told how jobs end: ml"}}},
		"channels that lead somewhere": {whole, func(f *Installation) { f.Channels, f.Addressed = []string{"ml"}, []string{"ml"} }, nil},
		"channels that may not be read": {whole, func(f *Installation) { f.Channels, f.Hidden = []string{"ml"}, []string{partChannels} },
			map[string]finding{"channels": {Unknown, "you may not read them"}}},
		"the lists are gone":        {whole, func(f *Installation) { f.NoLists = true }, map[string]finding{"policies": {Failed, "every new pod is refused"}}},
		"the lists may not be read": {whole, func(f *Installation) { f.NoLists, f.Hidden = true, []string{partLists} }, nil},
		"policies may not be read":  {whole, func(f *Installation) { f.MarkUnread(snapshot.PartPolicies) }, map[string]finding{"policies": {Unknown, "you may not read"}}},
		"CRDs may not be read":      {whole, func(f *Installation) { f.Hidden, f.CRDs = []string{partCRDs}, nil }, map[string]finding{"CRDs": {Unknown, "you may not read"}}},
		"one pod is not ready":      {whole, func(f *Installation) { f.Workloads[1].Ready = 1 }, map[string]finding{"gpu-controller": {Warning, "1 of 2 pods"}}},
		"no pod is ready":           {whole, func(f *Installation) { f.Workloads[3].Ready = 0 }, map[string]finding{"gpuctl-server": {Failed, "0 of 2 pods"}}},
		"it is scaled to none": {whole, func(f *Installation) { f.Workloads[1].Desired, f.Controller = 0, nil },
			map[string]finding{"gpu-controller": {Warning, "scaled to no pods"}}},
		"it runs outside of its pods": {whole, func(f *Installation) { f.Workloads[0].Desired, f.Workloads[1].Desired = 0, 0 }, nil},
		"it is scaled to none, and nobody may know who leads": {whole, func(f *Installation) { f.Workloads[1].Desired, f.NoController = 0, true },
			map[string]finding{"gpu-controller": {Warning, "scaled to no pods"}}},
		"an agent on no node": {whole, func(f *Installation) { f.Workloads[2].Desired = 0 },
			map[string]finding{"gpu-agent": {Warning, "on no node"}}},
		"half an upgrade": {whole, func(f *Installation) { f.Workloads[0].Image = "r:5000/gpu-scheduler:v2" },
			map[string]finding{"versions": {Warning, "gpu-agent, gpu-controller, gpu-ledger, gpuctl-server of v1; gpu-scheduler of v2"}}},
		"a digest is of any release": {whole, func(f *Installation) { f.Workloads[0].Image = "r/gpu-scheduler@sha256:aa" }, nil},
		"nobody leads":               {whole, func(f *Installation) { f.Lease.Spec.RenewTime.Time = t0.Add(-time.Minute) }, map[string]finding{"scheduler": {Failed, "last heard of"}}},
		"SpotPools are looked after": {whole, func(f *Installation) { f.SpotPools = 2 }, nil},
		"a SpotPool whose machines do not join": {whole, func(f *Installation) {
			f.SpotPools, f.SpotTroubles = 2, []SpotTrouble{{"train", "no kubelet registered its node"}}
		}, map[string]finding{"SpotPools": {Warning, "machines of train do not come: no kubelet registered its node"}}},
		"three of them": {whole, func(f *Installation) {
			f.SpotPools, f.SpotTroubles = 3, []SpotTrouble{{"a", "no kubelet"}, {"b", "sold out"}, {"c", "sold out"}}
		}, map[string]finding{"SpotPools": {Warning, "machines of a do not come: no kubelet; nor do those of 2 more"}}},
		"SpotPools that nobody looks after": {fresh, func(f *Installation) { f.SpotPools = 2 },
			with(map[string]finding{"SpotPools": {Failed, "2 have machines that nobody looks after"}})},
		"SpotPools whose controller is dead": {whole, func(f *Installation) { f.SpotPools, f.Controller.Spec.RenewTime.Time = 1, t0.Add(-time.Minute) },
			map[string]finding{"SpotPools": {Failed, "1 has machines that nobody looks after"}}},
		"SpotPools whose controller runs outside of its pods": {whole, func(f *Installation) { f.SpotPools, f.Workloads[1].Desired = 1, 0 }, nil},
		"SpotPools, and nobody may know who leads":            {whole, func(f *Installation) { f.SpotPools, f.Controller, f.NoController = 1, nil, true }, nil},
		"SpotPools whose controller is scaled to no pods": {whole, func(f *Installation) {
			f.SpotPools, f.Workloads[1].Desired, f.Workloads[1].Ready, f.Controller = 1, 0, 0, nil
		},
			map[string]finding{"SpotPools": {Failed, "no gpu-controller leads"}, "gpu-controller": {Warning, "scaled to no pods"}}},
		"SpotPools whose controller runs without a lease": {whole, func(f *Installation) { f.SpotPools, f.Controller = 1, nil }, nil},
		"an old configuration":                            {whole, func(f *Installation) { f.Configs = append(f.Configs, configPrefix+"b") }, map[string]finding{"leftovers": {Warning, "1 configuration that no scheduler uses is left: " + configPrefix + "b"}}},
		"nothing is known of what runs": {fresh, func(f *Installation) { f.Hidden = []string{partWorkloads} }, with(map[string]finding{
			"gpu-scheduler": {Unknown, "you may not read"}, "gpu-controller": {Unknown, "you may not"}, "gpu-agent": {Unknown, "you may not"},
			"gpuctl-server": {Unknown, "you may not"}, "gpu-ledger": {Unknown, "you may not"}, "cards": {Unknown, "you may not"},
		})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := tc.from()
			tc.change(&f)
			got := map[string]finding{}
			for _, check := range ExamineInstallation(f) {
				if check.Status == OK {
					continue
				}
				if len(check.Advice) == 0 {
					t.Errorf("%s has no advice", check.Name)
				}
				found := finding{check.Status, check.Text.String()}
				if want, ok := tc.want[check.Name]; ok && strings.Contains(check.Text.String(), want.Text) {
					found.Text = want.Text
				}
				got[check.Name] = found
			}
			want := tc.want
			if want == nil {
				want = map[string]finding{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheInstallationIsTheManifests: what is looked for is what they have.
func TestTheInstallationIsTheManifests(t *testing.T) {
	found := map[string][]string{}
	for _, pattern := range []string{"*/*.yaml"} {
		files, err := fs.Glob(manifests.FS, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := manifests.FS.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(data), "\n---\n") {
				var object struct {
					Kind     string
					Metadata struct{ Name string }
				}
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				folder, _, _ := strings.Cut(file, "/")
				found[object.Kind] = append(found[object.Kind], object.Metadata.Name)
				found[folder+"/"+object.Kind] = append(found[folder+"/"+object.Kind], object.Metadata.Name)
			}
		}
	}
	compare := func(what string, want, got []string) {
		t.Helper()
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-manifests +doctor):\n%s", what, diff)
		}
	}
	compare("policies", found["policy/ValidatingAdmissionPolicy"], slices.Clone(installedPolicies))
	compare("CRDs", found["CustomResourceDefinition"], slices.Collect(maps.Keys(installedCRDs)))
	var components []string
	for _, c := range installable {
		components = append(components, c.name)
	}
	compare("workloads", slices.Concat(found["Deployment"], found["StatefulSet"], found["DaemonSet"]), components)
}

func TestParseCRD(t *testing.T) {
	got, err := parseCRD([]byte(`{"metadata":{"name":"x"},"spec":{"versions":[{"name":"v1","served":true},{"name":"v0"}]},
		"status":{"storedVersions":["v0","v1"],"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`))
	want := CRD{Name: "x", Established: true, Served: []string{"v1"}, Stored: []string{"v0", "v1"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := parseCRD([]byte("<html>")); err == nil {
		t.Error("what is no CRD was read as one")
	}
}

func TestTagOf(t *testing.T) {
	for image, want := range map[string]string{
		"r:5000/a/b:v1": "v1", "r:5000/a/b": "", "b": "", "b:v2": "v2", "r/b@sha256:aa": "", "r/b:v1@sha256:aa": "", "": "",
	} {
		if got := imageTag(image); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
}
