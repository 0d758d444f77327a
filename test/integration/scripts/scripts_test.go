// Package scripts tests gpuctl as a user has it: scripts in testdata run the program against a whole sandbox with real
// etcd, API server, controllers and our scheduler, and say what it must print and with which code it must end.
//
// Beside the commands of testscript there are:
//
//	code N COMMAND...      runs a command that must end with exit code N
//	eventually COMMAND...  runs a command again and again until it succeeds
//	terminal N COMMAND...  runs a command on a terminal of 100 columns, to end with exit code N, and writes its screen to
//	                       the file screen; what the file typed holds is typed on it
//	drive N FILE COMMAND   runs a command that draws on the whole terminal, to end with exit code N: each line of FILE is
//	                       "see TEXT" or "miss TEXT", which wait for what the screen shows, "type KEYS" or "terminate"
//	json                   fails unless stdout is one JSON value and nothing else
//	through JOB PORT FILE  sends a file through gpuctl port-forward, and fails unless it comes back
//	visit 'REGEXP' JOB     fails unless what gpuctl open shows in a browser matches
//	posted TEXT FILE       waits until TEXT was posted to the channel "post", and writes all that was to FILE, as norm does
//	norm FILE              writes stdout to a file, with what differs from run to run replaced
//	kubectl ARG...         runs kubectl in the script's namespace
//
// A section of a script that begins with a name of catalog_test.go, such as "# case 7: ", shows what that name stands
// for; TestTheCatalogIsCovered fails when one is missing.
//
// Each script has a namespace of its own, s-<name of the script>; the nodes they share.
package scripts

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

var update = flag.Bool("update", false, "write what the scripts expect")

// patience is how long a script waits for what should come at once on an idle machine.
const patience = bounds.Patience

var (
	cluster *sandbox.Sandbox
	ledger  *sandbox.Ledger
)

// fleet is small enough that a script can fill it.
const fleet = `
groups:
- {namePrefix: train, count: 2, pool: training-pool, gpuType: A100-80G, gpusPerNode: 8, gpuMemory: 80Gi, interconnect: nvlink, cpu: "64", memory: 512Gi}
- {namePrefix: infer, count: 2, pool: inference-pool, gpuType: L40S-48G, gpusPerNode: 4, gpuMemory: 48Gi, interconnect: pcie, cpu: "32", memory: 256Gi}
- {namePrefix: gold, count: 1, pool: gold-pool, gpuType: H100-80G, gpusPerNode: 8, gpuMemory: 80Gi, interconnect: nvlink, cpu: "64", memory: 512Gi}
- {namePrefix: keep, count: 1, pool: reserve-lab, gpuType: T4-16G, gpusPerNode: 4, gpuMemory: 16Gi, interconnect: pcie, cpu: "32", memory: 256Gi}
- {namePrefix: slice, count: 1, pool: slices-lab, gpuType: A100-80G, gpusPerNode: 2, gpuMemory: 80Gi, interconnect: pcie, cpu: "32", memory: 256Gi}
- {namePrefix: node, count: 10, gpuType: T4-16G, gpusPerNode: 4, gpuMemory: 16Gi, interconnect: pcie, cpu: "32", memory: 256Gi}
`

func TestMain(m *testing.M) {
	testscript.Main(withCluster{m}, map[string]func(){
		"gpuctl": func() { os.Exit(cli.Main(os.Args, cli.SystemStreams())) },
	})
}

// withCluster runs the tests on a sandbox. It does not run when the binary is called as gpuctl.
type withCluster struct{ tests *testing.M }

func (w withCluster) Run() int {
	nodes, err := sandbox.ParseFleet([]byte(fleet))
	if err != nil {
		fmt.Fprintln(os.Stderr, "parsing the fleet of the tests:", err)
		return 1
	}
	options := sandbox.FullOptions()
	options.Fleet, options.HostExec = &nodes, true
	return sandboxtest.Main(w.tests, options, prepare)
}

func prepare(ctx context.Context, s *sandbox.Sandbox) error {
	cluster = s
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	if err := cluster.ApplyManifests(ctx, manifests.FS, "policy"); err != nil {
		return err
	}
	if _, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return err
	}
	if err := startLetters(ctx); err != nil {
		return err
	}
	if err := cluster.InstallLedger(ctx); err != nil {
		return err
	}
	var err error
	ledger, err = cluster.StartLedger(ctx, sandbox.LedgerOptions{})
	return err
}

func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestScriptsAlone has the scripts that change what others see, as quotas bound the slices that any node offers.
func TestScriptsAlone(t *testing.T) { runScripts(t, filepath.Join("testdata", "alone")) }

func runScripts(t *testing.T, folder string) {
	testscript.Run(t, testscript.Params{
		Dir: folder, Setup: setUp, UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code, "eventually": eventually, "terminal": terminal, "drive": drive, "norm": norm, "kubectl": kubectl, "json": isJSON,
			"through": through, "visit": visit, "posted": posted,
		},
	})
}

// setUp gives a script its namespace, and a kubeconfig that points there.
func setUp(env *testscript.Env) error {
	namespace := "s-" + filepath.Base(strings.TrimPrefix(env.WorkDir, filepath.Dir(env.WorkDir)+"/script-"))
	if out, err := cluster.RunKubectl(context.Background(), "create", "namespace", namespace); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	if err != nil {
		return err
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	tools, err := sandbox.FindTools()
	if err != nil {
		return err
	}
	// Our other programs, behind the gpuctl of the tests.
	env.Setenv("PATH", env.Getenv("PATH")+string(filepath.ListSeparator)+filepath.Dir(tools))
	path := filepath.Join(env.WorkDir, ".kubeconfig")
	env.Setenv("KUBECONFIG", path)
	env.Setenv("NS", namespace)
	env.Setenv("LEDGER", ledger.URL)
	env.Setenv("LEDGER_CA", ledger.CAFile)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
	env.Defer(func() {
		_, _ = cluster.RunKubectl(context.Background(), "delete", "namespace", namespace, "--wait=false") // the sandbox ends anyway
	})
	return clientcmd.WriteToFile(*config, path)
}
