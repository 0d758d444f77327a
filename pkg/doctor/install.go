package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Installation is the state of our components in a cluster, and of what they require.
type Installation struct {
	// Facts are those of [Examine] that an installation depends on: the server's version, API groups, the scheduler's lease, namespaces, policies and
	// their bindings, and the rights that an installation requires.
	Facts
	// NoPolicies is true if the API server does not support ValidatingAdmissionPolicies.
	NoPolicies bool
	// Suspect are policies with expressions that the API server found to mismatch the types.
	Suspect []string
	// NoLists is true if the ConfigMap with the lists of the policies does not exist.
	NoLists bool
	// Channels are those that namespaces may use, and Addressed those with an address, as far as the user may read it.
	Channels, Addressed []string
	// CRDs are our existing CRDs, Workloads our existing workloads.
	CRDs      []CRD
	Workloads []Workload
	// Behaves is the version of Kubernetes that the API server emulates, nil for that of Server.
	Behaves *version.Version
	// Plugins are the device plugins for GPUs on the nodes of Facts.
	Plugins []Plugin
	// Configs are the ConfigMaps with configurations of the scheduler, and Mounted the one that its pods mount.
	Configs []string
	Mounted string
	// NameConflicts is what others have under our names.
	NameConflicts NameConflicts
	// SpotPools is how many there are; their machines cost money.
	SpotPools int
	// SpotTroubles are the problems of some SpotPools.
	SpotTroubles []SpotTrouble
	// Hidden are parts that the user may not read, such as "CRDs".
	Hidden []string
}

// SpotTrouble is what prevents the machines of a SpotPool from joining.
type SpotTrouble struct{ SpotPool, Text string }

// CRD is a kind of objects as the cluster knows it.
type CRD struct {
	Name string
	// Established is true if objects can be created. Served are the served versions, Stored the versions in which objects are stored.
	Established    bool
	Served, Stored []string
}

// Workload is a Deployment, a StatefulSet or a DaemonSet of ours.
type Workload struct {
	Kind, Namespace, Name string
	// Desired is the desired number of pods, and Ready the number of ready ones.
	Desired, Ready int32
	// Image and Args are those of its first container.
	Image string
	Args  []string
}

// The names of what there are checks for.
const (
	partCRDs      = "CRDs"
	partWorkloads = "workloads"
	partLists     = "lists"
	partChannels  = "channels"
	configPrefix  = "gpu-scheduler-config-"
)

// installedCRDs are ours, and the version that this gpuctl and the programs of its release use.
var installedCRDs = map[string]string{
	"podgroups.scheduling.x-k8s.io":      "v1alpha1",
	"gpupools." + names.GroupName:        "v1alpha1",
	"gpuquotas." + names.GroupName:       "v1alpha1",
	"gpureservations." + names.GroupName: "v1alpha1",
	"spotpools." + names.GroupName:       "v1alpha1",
}

// component is a workload that can be installed.
type component struct {
	kind, namespace, name string
	// what it is for, and how it is installed.
	what    phrase.Text
	install string
	// needs is the Secret without which its pods do not start; "" is none.
	needs string
}

// The kinds of workloads.
const (
	deployment  = "Deployment"
	statefulSet = "StatefulSet"
	daemonSet   = "DaemonSet"
)

// ServerName is the name of the server, and of the namespace in which the manifests put it.
const ServerName = "gpuctl-server"

const (
	withChart  = "helm upgrade --install g8s manifests/chart -n kube-system"
	serverName = ServerName
	ledgerName = "gpu-ledger"
	agentName  = "gpu-agent"
)

// namespaceOf is the namespace of the component; that of the server is given.
func (c component) namespaceOf(server string) string {
	if c.name == serverName {
		return server
	}
	return c.namespace
}

var installable = []component{
	{deployment, "kube-system", names.SchedulerName, phrase.Textf("places pods"), withChart, ""},
	{deployment, "kube-system", controllerName, phrase.Textf("replaces disrupted pods and keeps GPUPools"), withChart, ""},
	{daemonSet, "kube-system", agentName, phrase.Textf("gives containers their cards"), withChart, ""},
	{deployment, serverName, serverName, phrase.Textf("is the REST API"), withChart + " --set server.enabled=true,server.tls.create=true", serverName + "-tls"},
	{statefulSet, "kube-system", ledgerName, phrase.Textf("remembers who held which GPU"), withChart + " --set ledger.enabled=true,ledger.tls.create=true", ledgerName + "-tls"},
}

// IsOurs reports whether an object is one of our programs, or derived from it, such as its pods and their events: it is in the namespace of the
// program, where only administrators write, and has its name or one that begins with it. server is the result of [ServerNamespace].
func IsOurs(server, namespace, name string) bool {
	return slices.ContainsFunc(installable, func(c component) bool {
		return namespace == c.namespaceOf(server) && (name == c.name || strings.HasPrefix(name, c.name+"-"))
	})
}

// IsAgentObject reports whether an object is the agent or one of its pods, of which each node has one.
func IsAgentObject(namespace, name string) bool {
	return namespace == "kube-system" && strings.HasPrefix(name, agentName)
}

// installedPolicies are those of manifests/policy.
var installedPolicies = []string{
	"g8s-access", "g8s-devices", fencePolicy, "g8s-hostpaths", "g8s-lists", "g8s-namespaces", "g8s-neighbours", "g8s-nodes", "g8s-pods", "g8s-stay", "g8s-terms",
}

// ExamineInstallation checks what prevents an installation or upgrade, and what is wrong with the existing one, in the order of repair.
func ExamineInstallation(f Installation) []Check {
	checks := []Check{f.checkRelease(), f.checkPolicyAPI(), f.checkAllocationAPI(), f.checkInstallRights(), f.checkInstallNamespaces(), f.checkNames(), f.checkCRDs(), f.checkPolicies()}
	for _, c := range installable {
		checks = append(checks, f.checkComponent(c))
	}
	checks = append(checks, f.checkGPUPlugins(), f.checkVersions(), f.checkSpotPools())
	if f.findWorkload(names.SchedulerName) != nil {
		checks = append(checks, f.checkScheduler())
	}
	if controller := f.findWorkload(controllerName); controller != nil {
		checks = append(checks, controller.silentNodes())
	}
	if len(f.Channels) > 0 {
		checks = append(checks, f.checkChannels())
	}
	return append(checks, f.checkLeftovers())
}

// The versions of Kubernetes on which the tests have passed: docs/upgrade.md has the table.
const oldestTested, newestTested = "1.34", "1.37"

func (f *Installation) checkRelease() Check {
	const name = "Kubernetes"
	found, err := version.ParseGeneric(f.Server)
	if err != nil {
		return Check{Name: name, Status: Warning, Text: phrase.Textf("its version %q cannot be read", shortenText(f.Server)),
			Advice: phrase.Textf("see that it is one of %s to %s", oldestTested, newestTested)}
	}
	minor := version.MajorMinor(found.Major(), found.Minor())
	serves := cmp.Or(f.Behaves, minor)
	text := phrase.Textf("the API server is %s", f.Server)
	switch {
	case serves.LessThan(version.MustParseGeneric(oldestTested)):
		return Check{Name: name, Status: Failed, Text: phrase.Textf("%s, and the scheduler needs %s or newer", text, oldestTested), Advice: phrase.Textf("upgrade the cluster first")}
	case minor.GreaterThan(version.MustParseGeneric(newestTested)):
		return Check{Name: name, Status: Warning, Text: phrase.Textf("%s, and %s is the newest that was tested", text, newestTested),
			Advice: phrase.Textf("try it on a cluster that is nobody's first, or see whether there is a newer release of gpu-scheduler")}
	}
	return f.checkEmulation(serves, text)
}

func (f *Installation) checkPolicyAPI() Check {
	const name = "policies' API"
	if f.NoPolicies {
		return Check{Name: name, Status: Failed, Text: phrase.Textf("the API server has no ValidatingAdmissionPolicies, so nothing fences schedulers and users"),
			Advice: phrase.Textf("do not disable admissionregistration.k8s.io/v1 (kube-apiserver --runtime-config), nor the plugin ValidatingAdmissionPolicy")}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("the API server enforces ValidatingAdmissionPolicies")}
}

const groupAllocation = "resource.k8s.io/v1"

func (f *Installation) checkAllocationAPI() Check {
	const name = "resource claims' API"
	if !slices.Contains(f.Groups, groupAllocation) {
		return Check{Name: name, Status: Failed, Text: phrase.Textf("%s is not served: kube-scheduler reads it before it places its first pod", groupAllocation),
			Advice: phrase.Textf("enable it: kube-apiserver --runtime-config=%s=true, which is the default", groupAllocation)}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("%s is served", groupAllocation)}
}

// checkInstallRights fails only before an installation: a running one needs no installer.
func (f *Installation) checkInstallRights() Check {
	check := Check{Name: "your rights to install", Status: OK, Text: phrase.Textf("you may make all that the chart has")}
	var missing []string
	for _, right := range f.Rights {
		if !right.Allowed {
			missing = append(missing, right.Verb+" "+right.Kind)
		}
	}
	if len(missing) == 0 {
		return check
	}
	check.Status, check.Text = Failed, phrase.Textf("you may not %s", strings.Join(missing, ", "))
	check.Advice = phrase.Textf("install as who has the cluster role cluster-admin")
	if f.findWorkload(names.SchedulerName) != nil {
		check.Status, check.Text = Warning, check.Text.Addf(": you cannot upgrade what is there")
	}
	return check
}

func (f *Installation) checkInstallNamespaces() Check {
	const name = "namespaces"
	if check, unread := f.checkUnread(name, snapshot.PartNamespaces); unread {
		return check
	}
	for i := range f.Namespaces {
		namespace := &f.Namespaces[i]
		ours := slices.Contains([]string{serverName, "g8s-spot"}, namespace.Name)
		if ours && namespace.Status.Phase == corev1.NamespaceTerminating {
			return Check{Name: name, Status: Failed, Text: phrase.Textf("namespace %s is being deleted: nothing can be installed in it%s", namespace.Name, deletionBlocker(namespace)),
				Advice: phrase.Textf("wait until it is gone: kubectl get namespace %s -w", namespace.Name)}
		}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("none of ours is being deleted")}
}

func (f *Installation) checkCRDs() Check {
	if slices.Contains(f.Hidden, partCRDs) {
		return Check{Name: partCRDs, Status: Unknown, Text: phrase.Textf("you may not read them"), Advice: phrase.Textf("ask an administrator to run gpuctl doctor --install")}
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(installedCRDs)) {
		want := installedCRDs[name]
		i := slices.IndexFunc(f.CRDs, func(c CRD) bool { return c.Name == name })
		switch {
		case i < 0:
			missing = append(missing, name)
		case !slices.Contains(f.CRDs[i].Served, want):
			return Check{Name: partCRDs, Status: Failed, Advice: phrase.Textf("see who installed it: kubectl get crd %s -o yaml; then kubectl apply --server-side -k manifests/crds", name),
				Text: phrase.Textf("%s has no version %s, only %s", name, want, firstNonEmpty(phrase.Quote(strings.Join(f.CRDs[i].Served, ", ")), phrase.Textf("none")))}
		case !f.CRDs[i].Established:
			return Check{Name: partCRDs, Status: Failed, Text: phrase.Textf("%s is not established: another kind has its name, or the API server is busy", name),
				Advice: phrase.Textf("kubectl describe crd %s", name)}
		case len(f.CRDs[i].Stored) > 1:
			return Check{Name: partCRDs, Status: Warning, Advice: phrase.Textf("docs/upgrade.md tells how to write them again in the new version"),
				Text: phrase.Textf("objects of %s are stored in the versions %s", name, strings.Join(f.CRDs[i].Stored, ", "))}
		}
	}
	if len(missing) > 0 {
		return Check{Name: partCRDs, Status: Warning, Text: phrase.Textf("not installed: %s", strings.Join(missing, ", ")),
			Advice: phrase.Textf("%s, or kubectl apply --server-side -k manifests/crds", withChart)}
	}
	return Check{Name: partCRDs, Status: OK, Text: phrase.Textf("all %d are there, in the version that this gpuctl uses", len(installedCRDs))}
}

func (f *Installation) checkPolicies() Check {
	const name = "policies"
	if check, unread := f.checkUnread(name, snapshot.PartPolicies); unread {
		return check
	}
	var missing, unbound []string
	for _, policy := range installedPolicies {
		switch {
		case !slices.Contains(f.Policies, policy):
			missing = append(missing, policy)
		case !slices.Contains(f.Bindings, policy):
			unbound = append(unbound, policy)
		}
	}
	bound := slices.Contains(f.Bindings, "g8s-access") || slices.Contains(f.Bindings, "g8s-hostpaths")
	again := phrase.Textf("%s, or kubectl apply --server-side -k manifests/scheduler", withChart)
	switch {
	case f.NoLists && bound && !slices.Contains(f.Hidden, partLists):
		return Check{Name: name, Status: Failed, Text: phrase.Textf("the ConfigMap kube-system/%s is gone, so every new pod is refused", names.PolicyConfigMap),
			Advice: phrase.Textf("put it back: kubectl apply --server-side -f manifests/policy/allowed.yaml")}
	case len(missing) == len(installedPolicies):
		return Check{Name: name, Status: Warning, Text: phrase.Textf("not installed: two schedulers may give one GPU away, and users may take any"), Advice: again}
	case len(missing) > 0:
		return Check{Name: name, Status: Warning, Text: phrase.Textf("missing, as in an older release: %s", strings.Join(missing, ", ")), Advice: again}
	case len(unbound) > 0:
		return Check{Name: name, Status: Warning, Text: phrase.Textf("without a binding, so that they do nothing: %s", strings.Join(unbound, ", ")), Advice: again}
	case len(f.Suspect) > 0:
		return Check{Name: name, Status: Warning, Text: phrase.Textf("the API server warns of expressions in %s", examplesText(f.Suspect)),
			Advice: phrase.Textf("kubectl get validatingadmissionpolicy %s -o jsonpath={.status.typeChecking}", slices.Min(f.Suspect))}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("all %d are there and bound", len(installedPolicies))}
}
