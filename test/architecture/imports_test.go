// Package architecture keeps the arrows of docs/architecture.md: which part of the tree may reach which.
package architecture

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "g8s.host/gpu-scheduler/"
	kubernetes = "k8s.io/kubernetes"
)

// rule says what the packages under a tree may not import.
type rule struct {
	tree string
	// forbidden may not be reached, directly or through others.
	forbidden []string
	// direct may not be imported by the tree itself. Kubernetes' own API packages reach them, so that an
	// indirect import says nothing.
	direct []string
	why    string
}

// talks are the packages with which a decision would reach out of itself.
var talks = []string{"net", "net/http", "os", "os/exec", "k8s.io/client-go", "k8s.io/klog"}

var rules = []rule{
	{tree: "pkg/apis/g8s/...", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")},
		why: "names and API types are imported by everything"},
	{tree: "pkg/apis/config/v1", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")},
		why: "only pkg/apis/config/scheme may know kube-scheduler's scheme"},
	{tree: "pkg/gpu/...", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "the core is values in, values out"},
	{tree: "pkg/workload/...", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "parsing needs no cluster"},
	{tree: "pkg/safeyaml", forbidden: []string{"k8s.io", ours("plugins"), ours("cli"), ours("pkg/workload")}, direct: talks,
		why: "everything that reads YAML shares it"},
	{tree: "pkg/pool/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "a plan is a value"},
	{tree: "pkg/render/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "rendering needs no cluster"},
	{tree: "pkg/workdir", forbidden: []string{"k8s.io", ours("plugins"), ours("cli"), ours("pkg/workload")}, direct: []string{"net", "net/http", "os", "os/exec"},
		why: "it packs the folder that it is given, and can leave it by no name"},
	{tree: "pkg/slurm", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/submit")}, direct: talks,
		why: "a script is turned into a job without a cluster"},
	{tree: "pkg/snapshot", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/inventory"), ours("pkg/gpu"), ours("pkg/sandbox")},
		why: "it reads, and judges nothing"},
	{tree: "cli/monospace", forbidden: []string{"k8s.io", ours("pkg"), ours("plugins")}, direct: talks,
		why: "columns are counted in the text alone"},
	{tree: "cli/screen", forbidden: []string{"k8s.io", "github.com/gdamore/tcell", ours("pkg/snapshot"), ours("pkg/inventory"), ours("plugins")}, direct: talks,
		why: "a screen is a value: neither a terminal nor a cluster is needed to test it"},
	{tree: "pkg/fair", forbidden: []string{"k8s.io", ours("plugins"), ours("cli"), ours("pkg/server")}, direct: talks,
		why: "the server and the ledger share it"},
	{tree: "pkg/conflict", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/submit"), ours("pkg/drain")},
		why: "all that write share it"},
	{tree: "pkg/serving", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli"), ours("pkg/server"), ours("pkg/ledger")},
		why: "the server and the ledger share it, and it knows nothing of what is served"},
	{tree: "pkg/inventory/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the read model serves CLI, API and console alike"},
	{tree: "pkg/fit/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "what keeps a pod from a node follows from the two alone"},
	{tree: "pkg/condition", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli")}, direct: talks,
		why: "gpuctl and the agent find conditions with it"},
	{tree: "pkg/nodestate", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli")}, direct: talks,
		why: "what is wrong with a node is written on it"},
	{tree: "pkg/minruntime", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli")}, direct: talks,
		why: "the scheduler keeps it, and gpuctl tells of it"},
	{tree: "pkg/preemption", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "it carries out what a plugin decided, and knows no plugin"},
	{tree: "pkg/notice", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli")}, direct: talks,
		why: "the scheduler tells it, and gpuctl tells of it"},
	{tree: "pkg/reservation", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli"), ours("pkg/reservation/follow")}, direct: talks,
		why: "the scheduler keeps it, and gpuctl tells of it"},
	{tree: "pkg/reservation/follow", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the plugins share what it follows"},
	{tree: "pkg/backfill", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")}, direct: talks,
		why: "what is promised, and whom it binds, follows from values"},
	{tree: "pkg/gpuquota", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli"), ours("pkg/gpuquota/follow")}, direct: talks,
		why: "who may have how many GPUs follows from the quotas and who holds what"},
	{tree: "pkg/gpuquota/follow", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the plugins share what it follows"},
	{tree: "pkg/optional", forbidden: []string{kubernetes, ours("pkg/apis"), ours("pkg/gpu"), ours("plugins"), ours("cli")},
		why: "it knows no kind by name"},
	{tree: "pkg/channel", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli")}, direct: talks,
		why: "who submits a job is warned by what gpu-controller goes by"},
	{tree: "pkg/drain", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox"), ours("pkg/controller")},
		why: "draining serves CLI and API alike"},
	{tree: "pkg/quota/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "what a quota has too little of follows from it and the pods alone"},
	{tree: "pkg/defrag/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "advice serves CLI, API and console alike"},
	{tree: "pkg/defrag/moves", forbidden: []string{"k8s.io", ours("plugins"), ours("cli")}, direct: talks,
		why: "the search knows nodes and pods by an interface alone"},
	{tree: "pkg/reason", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli"), ours("pkg/diagnosis")}, direct: talks,
		why: "plugins write from it, and gpuctl finds it again"},
	{tree: "pkg/phrase", forbidden: []string{"k8s.io", ours("pkg/reason"), ours("pkg/gpu"), ours("plugins"), ours("cli")}, direct: talks,
		why: "it knows how to say, and not what"},
	{tree: "pkg/spelling", forbidden: []string{"k8s.io", ours("pkg/workload"), ours("pkg/gpu"), ours("plugins"), ours("cli")}, direct: talks,
		why: "words are words"},
	{tree: "pkg/diagnosis/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "a diagnosis serves CLI, API and console alike"},
	{tree: "pkg/joblogs/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the output of jobs serves CLI, API and console alike"},
	{tree: "pkg/queue/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "who waits before whom serves CLI, API and console alike"},
	{tree: "pkg/survival", forbidden: []string{"k8s.io", ours("pkg/ledger"), ours("pkg/queue"), ours("plugins"), ours("cli")}, direct: talks,
		why: "how long a job runs is learnt from how long others did, whoever tells it"},
	{tree: "pkg/forecast", forbidden: []string{"k8s.io", ours("pkg/gpu"), ours("pkg/queue"), ours("plugins"), ours("cli")}, direct: talks,
		why: "a benchmark asks it, too: it knows nodes and pods as amounts alone"},
	{tree: "pkg/gpumetrics/...", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")},
		why: "it talks to Prometheus, and to nothing else"},
	{tree: "pkg/usage/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "who holds which GPU serves CLI, API and console alike"},
	{tree: "pkg/doctor/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "whether a cluster is fit is told by CLI and API alike"},
	{tree: "pkg/explain", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "records are values, which gpuctl reads too"},
	{tree: "pkg/explain/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "who may ask is decided where the records are served"},
	{tree: "pkg/jobplan", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/submit")}, direct: talks,
		why: "what becomes of a job is decided without a cluster"},
	{tree: "pkg/submit/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the write side serves CLI and API alike"},
	// pkg/simulate itself links k8s.io/kubernetes and the plugins: it is the scheduler, without a cluster.
	{tree: "pkg/simulate", forbidden: []string{ours("cli"), ours("pkg/sandbox"), ours("pkg/server")},
		why: "a simulation asks no cluster"},
	{tree: "pkg/configcheck", forbidden: []string{ours("cli"), ours("pkg/sandbox"), ours("pkg/server")},
		why: "what a file means is told without a cluster"},
	{tree: "pkg/supportbundle", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "it takes what there is, and knows nobody who shows it"},
	{tree: "pkg/topology", forbidden: []string{"k8s.io/api", "k8s.io/client-go", kubernetes, ours("plugins"), ours("cli"), ours("pkg/gpu")}, direct: talks,
		why: "where nodes lie follows from their labels"},
	{tree: "pkg/gang", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "objects in, numbers out"},
	{tree: "pkg/gang/phase", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "what a gang waits for follows from what happened to it"},
	{tree: "pkg/gang/podgroup", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")}, direct: talks,
		why: "it reads one object, that others have fetched"},
	{tree: "pkg/gang/follow", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "it reads the groups of gangs, and decides nothing"},
	{tree: "pkg/gang/partial", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")}, direct: talks,
		why: "whether a gang is partially bound follows from its pods"},
	{tree: "pkg/gang/queue", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")}, direct: talks,
		why: "which pod comes first follows from what is known of both"},
	{tree: "pkg/gang/rejection", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")}, direct: talks,
		why: "it reads what others said"},
	{tree: "pkg/gang/placement", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "where members fit follows from a snapshot of the nodes"},
	{tree: "pkg/gangplan", forbidden: []string{"k8s.io/api", "k8s.io/client-go", kubernetes, ours("plugins"), ours("cli"), ours("pkg/gpu")}, direct: talks,
		why: "a plan follows from where nodes lie and how many members they take"},
	{tree: "pkg/fragmentation", forbidden: []string{"k8s.io", ours("plugins"), ours("cli")}, direct: talks,
		why: "a value is a function of the demand and of what is free"},
	// observe follows pods by an index of the informer's store, which is client-go's.
	{tree: "pkg/fragmentation/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli")}, direct: []string{"net", "net/http", "os", "os/exec", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest"},
		why: "plugins share it, and know the contract, k8s.io/kube-scheduler/framework, alone"},
	{tree: "pkg/whatif", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox"), ours("pkg/simulate")},
		why: "gpuctl and the server ask, and do not link the scheduler"},
	{tree: "pkg/simulate/recording", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "a recording is of what the API server tells, whoever scheduled"},
	{tree: "pkg/simulate/trace", forbidden: []string{"k8s.io", ours("plugins"), ours("cli")},
		why: "a trace is a value"},
	{tree: "test/bench/placement", forbidden: []string{"k8s.io", ours("plugins"), ours("cli")}, direct: talks,
		why: "the published policies are functions of a trace and a seed"},
	{tree: "pkg/simulate/chart", forbidden: []string{"k8s.io", ours("plugins"), ours("cli")}, direct: talks,
		why: "a plot is a value"},
	{tree: "test/bench/queueing", forbidden: []string{"k8s.io", ours("plugins"), ours("cli")}, direct: talks,
		why: "a replay is a function of its inputs"},
	{tree: "pkg/ledger", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli")}, direct: talks,
		why: "who held what follows from what was seen of pods"},
	{tree: "pkg/ledger/client", forbidden: []string{kubernetes, "k8s.io/apiserver", "go.etcd.io", ours("plugins"), ours("cli")},
		why: "gpuctl asks the ledger, and links neither its file nor its server"},
	{tree: "pkg/ledger/learn", forbidden: []string{kubernetes, "k8s.io/apiserver", "go.etcd.io", ours("plugins"), ours("cli")},
		why: "the scheduler asks the ledger, and links neither its file nor its server"},
	{tree: "pkg/ledger/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox"), ours("pkg/server"), ours("pkg/controller")},
		why: "it writes down, and decides nothing"},
	{tree: "cmd/gpu-ledger", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the ledger needs no scheduler"},
	{tree: "pkg/server/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the API shares its decisions with gpuctl through packages that both import"},
	{tree: "cmd/gpuctl-server", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the server needs no scheduler, and starts without a hundred megabytes of one"},
	{tree: "pkg/controller/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox"), ours("pkg/server")},
		why: "controllers look after what is placed, and place nothing"},
	{tree: "cmd/gpu-controller", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "the controller needs no scheduler"},
	{tree: "cli/...", forbidden: []string{kubernetes, ours("plugins"), ours("pkg/server"), ours("pkg/sandbox")},
		why: "gpuctl starts in 100 ms and stays small"},
	{tree: "cmd/gpuctl", forbidden: []string{kubernetes, ours("plugins"), ours("pkg/server"), ours("pkg/sandbox")},
		why: "gpuctl starts in 100 ms and stays small"},
	{tree: "cmd/gpu-scheduler", forbidden: []string{"gonum.org/v1/plot", "codeberg.org", "git.sr.ht", "golang.org/x/image", "github.com/ajstarks"},
		why: "what runs with the rights of a scheduler draws no plots and links no fonts"},
	{tree: "pkg/devices", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "plugins share it, and know the contract, k8s.io/kube-scheduler/framework, alone"},
	{tree: "pkg/hint", forbidden: []string{kubernetes, ours("plugins"), ours("cli")},
		why: "it is what the queueing hints of plugins share"},
	{tree: "pkg/cycle/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/devices")}, direct: talks,
		why: "plugins meet there, and know the contract, k8s.io/kube-scheduler/framework, alone"},
	{tree: "pkg/backpressure", forbidden: []string{kubernetes, "k8s.io/client-go", ours("plugins"), ours("cli")}, direct: talks,
		why: "it counts, and knows neither pods nor schedulers"},
	{tree: "pkg/amounts", forbidden: []string{"k8s.io/client-go", kubernetes, ours("plugins"), ours("cli"), ours("pkg/gpu")}, direct: talks,
		why: "it bounds what objects say before anybody reads them"},
	{tree: "pkg/liveness", forbidden: []string{"k8s.io", ours("plugins"), ours("cli"), ours("pkg/devices")}, direct: talks,
		why: "it counts the turns of a loop, and knows neither pods nor schedulers"},
	{tree: "pkg/serverclient", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/explain"), ours("pkg/ledger"), ours("pkg/snapshot")},
		why: "it knows addresses and credentials, and nothing of what is asked"},
	{tree: "pkg/program", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/gpu"), ours("pkg/inventory"), ours("pkg/sandbox")},
		why: "every program begins with it, whatever it does"},
	{tree: "pkg/program/tracing", forbidden: []string{kubernetes, "k8s.io/client-go/kubernetes", ours("plugins"), ours("cli"), ours("pkg/server"), ours("pkg/controller")},
		why: "three programs share it, whatever they do"},
	{tree: "pkg/fence", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/devices"), ours("pkg/sandbox")},
		why: "it knows leases and epochs, and nothing of what is bound under them"},
	{tree: "pkg/agent/...", forbidden: []string{kubernetes, ours("plugins"), ours("cli"), ours("pkg/sandbox"), ours("pkg/server")},
		why: "it runs on every node, and stays small"},
	{tree: "pkg/agent/binding", forbidden: []string{"k8s.io/client-go", kubernetes}, direct: talks,
		why: "who gets a card follows from what is known"},
	{tree: "pkg/agent/checkpoint", forbidden: []string{"k8s.io/client-go", kubernetes}, direct: talks,
		why: "a checkpoint is bytes"},
	{tree: "pkg/agent/health", forbidden: []string{"k8s.io/client-go", kubernetes}, direct: talks,
		why: "health follows from events, signs and the time"},
	{tree: "pkg/agent/audit", forbidden: []string{"k8s.io/client-go", kubernetes}, direct: talks,
		why: "what differs follows from what both sides say"},
	{tree: "pkg/agent/shares", forbidden: []string{"k8s.io/client-go", kubernetes}, direct: talks,
		why: "who is over their share follows from shares and use"},
	{tree: "cmd/gpu-agent", forbidden: []string{kubernetes, "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", ours("plugins"), ours("cli"), ours("pkg/sandbox")},
		why: "clients of every kind of Kubernetes would be half of the agent"},
	{tree: "test/oracle", forbidden: []string{kubernetes, ours("plugins"), ours("pkg/devices"), ours("cli"), ours("pkg/sandbox")},
		why: "a judge shares no arithmetic with the scheduler, only the formats of pkg/gpu"},
}

func ours(tree string) string { return module + tree }

// pluginRules keep each plugin from Kubernetes' own tree, and from every other plugin.
func pluginRules(t *testing.T) []rule {
	t.Helper()
	packages := slices.DeleteFunc(list(t, "./plugins/..."), func(path string) bool {
		return path == ours("plugins") // the list of them
	})
	var found []rule
	for _, plugin := range packages {
		forbidden := []string{kubernetes, ours("cli"), ours("pkg/server"), ours("pkg/sandbox")}
		if plugin == ours("plugins/coscheduling") {
			forbidden = forbidden[1:] // the arguments of scheduler-plugins, which it reads, reach it
		}
		for _, other := range packages {
			if _, own := under(other, []string{plugin}); !own {
				forbidden = append(forbidden, other)
			}
		}
		found = append(found, rule{tree: strings.TrimPrefix(plugin, module), forbidden: forbidden,
			why: "plugins know the contract, k8s.io/kube-scheduler/framework, and not each other"})
	}
	if len(found) == 0 {
		t.Fatal("found no plugin, so the rule about them would prove nothing")
	}
	return found
}

func TestImports(t *testing.T) {
	for _, rule := range append(pluginRules(t), rules...) {
		t.Run(rule.tree, func(t *testing.T) {
			for _, pkg := range list(t, rule.tree) {
				for _, path := range list(t, "-deps", pkg) {
					if tree, ok := under(path, rule.forbidden); ok {
						t.Errorf("%s reaches %s, and may not reach %s: %s", pkg, path, tree, rule.why)
					}
				}
				for _, path := range list(t, "-f", `{{join .Imports "\n"}}`, pkg) {
					if tree, ok := under(path, rule.direct); ok {
						t.Errorf("%s imports %s, and may not import %s: %s", pkg, path, tree, rule.why)
					}
				}
			}
		})
	}
}

// TestTheProductLinksNoStudy holds that what is measured in test/bench is none of what is shipped.
func TestTheProductLinksNoStudy(t *testing.T) {
	for _, tree := range []string{"./cmd/...", "./pkg/...", "./plugins/...", "./cli/..."} {
		for _, path := range list(t, "-deps", tree) {
			if _, ok := under(path, []string{ours("test")}); ok {
				t.Errorf("%s reaches %s", tree, path)
			}
		}
	}
}

// TestPackageComments asks every package to say what it is for.
func TestPackageComments(t *testing.T) {
	for _, line := range list(t, "-f", "{{.ImportPath}}\t{{.Doc}}", "./...") {
		pkg, doc, _ := strings.Cut(line, "\t")
		if doc == "" && !strings.Contains(pkg, "/test/") {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

// under returns the first of trees that the import path is the root of or in.
func under(path string, trees []string) (string, bool) {
	for _, tree := range trees {
		if path == tree || strings.HasPrefix(path, tree+"/") {
			return tree, true
		}
	}
	return "", false
}

// list runs go list in the module's root and returns its lines. A last argument that does not begin with a domain is a tree of ours.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	last := len(args) - 1
	if first, _, _ := strings.Cut(args[last], "/"); !strings.Contains(first, ".") {
		args[last] = "./" + args[last]
	}
	command := exec.Command("go", append([]string{"list"}, args...)...)
	command.Dir = "../.."
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil || strings.Contains(stderr.String(), "matched no packages") {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.Split(strings.TrimSpace(string(output)), "\n")
}
