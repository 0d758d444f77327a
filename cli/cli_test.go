package cli

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/timelimit"
	"g8s.host/gpu-scheduler/test/golden"
)

// compareGolden compares a text with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".golden"), got)
}

// gpuctl runs the real command tree without any cluster.
func gpuctl(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	streams, out, errOut := TestIOStreams(stdin)
	code = Run(t.Context(), NewFactory(streams), append([]string{"gpuctl"}, args...))
	return code, out.String(), errOut.String()
}

const trainingYAML = `kind: training
job: {name: sft}
environment: {image: busybox}
resources: {gpu: 2, gpu-type: A100-80G, cpu: 1, memory: 1Gi}
`

func TestWithoutACluster(t *testing.T) {
	tests := map[string]struct {
		stdin          string
		args           []string
		code           int
		stdout, stderr string
	}{
		"a misspelt command":                          {args: []string{"crate"}, code: 2, stderr: `did you mean "create"?`},
		"a misspelt command with flags":               {args: []string{"creat", "-f", "x"}, code: 2, stderr: `did you mean "create"?`},
		"a misspelt resource with flags":              {args: []string{"get", "jbos", "--pool=x"}, code: 2, stderr: `did you mean "jobs"?`},
		"pods, as kubectl has them":                   {args: []string{"get", "pods", "-A"}, code: 2, stderr: "gpuctl get jobs --pods"},
		"help on what is not there":                   {args: []string{"help", "get", "jbos"}, code: 2, stderr: `did you mean "jobs"?`},
		"the pool that cannot go":                     {args: []string{"delete", "pool", "default"}, code: 2, stderr: "it cannot be deleted"},
		"a misspelt resource":                         {args: []string{"get", "jbos"}, code: 2, stderr: `did you mean "jobs"?`},
		"a misspelt flag":                             {args: []string{"get", "jobs", "--pol=x"}, code: 2, stderr: `did you mean "--pool"?`},
		"a misspelt kind":                             {args: []string{"get", "jobs", "--kind=training2"}, code: 2, stderr: `did you mean "training"?`},
		"a format that does not exist":                {args: []string{"get", "nodes", "-o", "xml"}, code: 2, stderr: "want one of table, wide"},
		"a group without a command":                   {args: []string{"get"}, code: 2, stdout: "nodes"},
		"no cluster configured":                       {args: []string{"get", "jobs"}, code: 9, stderr: "none, which is not there"},
		"a document of no kind":                       {args: []string{"init"}, code: 2, stderr: "training, inference, notebook"},
		"a shorter command misspelt with flags":       {args: []string{"crete", "-f", "x"}, code: 2, stderr: `did you mean "create"?`},
		"a command that others have":                  {args: []string{"list"}, code: 2, stderr: "use gpuctl get jobs"},
		"a command that others have, with flags":      {args: []string{"submit", "-f", "x"}, code: 2, stderr: "use gpuctl create -f FILE"},
		"a job needs a name":                          {args: []string{"logs"}, code: 2, stderr: "the name of one job"},
		"no file":                                     {args: []string{"create"}, code: 2, stderr: "give one with -f"},
		"a file that does not exist":                  {args: []string{"validate", "-f", "/nope.yaml"}, code: 2, stderr: "reading /nope.yaml: no such file"},
		"the exit code of a job that is not followed": {args: []string{"logs", "x", "--exit-code"}, code: 2, stderr: "needs -f"},
		"previous output cannot be followed":          {args: []string{"logs", "x", "-p", "-f"}, code: 2, stderr: "either --previous or -f"},
		"two beginnings":                              {args: []string{"logs", "x", "--since=1m", "--since-time=x"}, code: 2, stderr: "either --since or --since-time"},
		"a time that is none":                         {args: []string{"logs", "x", "--since-time=noon"}, code: 2, stderr: "want a time such as"},
		"an expression that is none":                  {args: []string{"logs", "x", "--grep=("}, code: 2, stderr: "--grep: error parsing regexp"},
		"names and labels at once":                    {args: []string{"delete", "x", "-l", "a=b"}, code: 2, stderr: "not several of them"},
		"arguments after -f are files":                {args: []string{"delete", "-f", "-", "x"}, code: 2, stderr: "reading x: no such file"},
		"the version of gpuctl":                       {args: []string{"version", "--client"}, stdout: "gpuctl"},
		"a valid file":                                {stdin: trainingYAML, args: []string{"validate", "-f", "-"}, stdout: "<stdin>: training/sft is valid\n"},
		"a service as the first gpuctl wrote it": {
			stdin: strings.Replace(trainingYAML, "training", "inference", 1) + "service: {port: 80}\n", args: []string{"validate", "-f", "-"},
			stdout: "inference/sft is valid", stderr: "<stdin>:5:1: warning: service.type is ClusterIP where it is left out, and was NodePort in the first gpuctl",
		},
		"a bad file": {
			stdin: strings.Replace(trainingYAML, "gpu:", "gpus:", 1), args: []string{"validate", "-f", "-"},
			code: 2, stderr: "<stdin>:4:13: unknown field \"gpus\" in resources (did you mean \"gpu\"?)\n  resources",
		},
		"a bad file of no kind": {
			stdin: strings.Replace(strings.Replace(trainingYAML, "training", "cronjob", 1), "gpu:", "gpus:", 1), args: []string{"validate", "-f", "-"},
			code: 2, stderr: "2 errors in the YAML",
		},
		"render needs no cluster": {stdin: trainingYAML, args: []string{"render", "-f", "-"}, stdout: "kind: Job"},
		"a client dry run needs no cluster": {
			stdin: trainingYAML, args: []string{"create", "-f", "-", "--dry-run=client"},
			stdout: "training/sft created (client dry run)\n",
		},
		"several objects are a List for kubectl": {
			stdin: strings.Replace(trainingYAML, "training", "notebook", 1), args: []string{"render", "-f", "-", "-o", "json"},
			stdout: "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [",
		},
		"an argument too many": {args: []string{"version", "now"}, code: 2, stderr: `unexpected argument "now"`},
		"a completion script":  {args: []string{"completion", "bash"}, stdout: "__start_gpuctl"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := gpuctl(t, tc.stdin, tc.args...)
			if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nwant: %s\nstderr: %s\nwant: %s",
					code, tc.code, stdout, tc.stdout, stderr, tc.stderr)
			}
		})
	}
}

func TestRenderIsADryRun(t *testing.T) {
	_, rendered, _ := gpuctl(t, trainingYAML, "render", "-f", "-")
	_, dry, _ := gpuctl(t, trainingYAML, "create", "--dry-run=client", "-o", "yaml", "-f", "-")
	if diff := cmp.Diff(dry, rendered); diff != "" {
		t.Errorf("(-create +render):\n%s", diff)
	}
}

func TestTheHelpNamesEveryExitCode(t *testing.T) {
	for _, code := range []int{
		exitOK, exitFailure, exitUsage, exitNotFound, exitConflict, exitForbidden, exitQuota, exitCannotFit, exitTimeout,
		exitUnreachable, exitJobFailed, exitNotFinished, exitCancelled, exitInterrupted,
	} {
		if !strings.Contains(exitCodeHelp, fmt.Sprintf("  %d ", code)) {
			t.Errorf("the help does not name exit code %d", code)
		}
	}
}

func TestHintsSayWhatToDoNext(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"the cluster is down":        {&url.Error{URL: "https://h:6443/api", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, "https://h:6443"},
		"its certificate is unknown": {&url.Error{URL: "https://h:6443/api", Err: x509.UnknownAuthorityError{}}, "certificate-authority"},
		"the ledger is down": {
			&ledgerclient.UnreachableError{Address: "https://l:1", Err: &url.Error{URL: "https://l:1/api", Err: errors.New("refused")}},
			"asking the ledger: refused\nThe ledger at https://l:1 does not answer",
		},
		"the ledger's certificate is unknown": {
			&ledgerclient.UnreachableError{Address: "https://l:1", Err: &url.Error{URL: "https://l:1/api", Err: x509.UnknownAuthorityError{}}}, "--ledger-ca",
		},
		"a node is in another pool": {&submit.ForeignNodesError{}, "--force moves"},
		"it is not in that pool":    {&submit.ForeignNodesError{Leaving: true}, "Nothing was changed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := errorMessage(fmt.Errorf("doing it: %w", tc.err)).String(); !strings.Contains(got, tc.want) {
				t.Errorf("message is %q, want one with %q", got, tc.want)
			}
		})
	}
}

func TestHelpNamesTheProgramAsItWasCalled(t *testing.T) {
	streams, out, _ := TestIOStreams("")
	Run(t.Context(), NewFactory(streams), []string{"/usr/bin/kubectl-gpu", "get", "jobs", "--help"})
	if text := out.String(); !strings.Contains(text, "kubectl gpu get jobs [NAME]") || strings.Contains(text, "gpuctl") {
		t.Errorf("help is:\n%s", text)
	}
}

func TestHintsNameTheProgramAsItWasCalled(t *testing.T) {
	tests := map[string]struct {
		args         []string
		stdout, told string
	}{
		"an error":            {[]string{"run", "date"}, "", "once for all with: kubectl gpu config set image IMAGE"},
		"help, in its middle": {[]string{"run", "--help"}, "a file for kubectl gpu create -f to begin from", ""},
		"help, of flags":      {[]string{"run", "--help"}, "see kubectl gpu explain", ""},
		"help, in Chinese":    {[]string{"run", "--help", "--lang", "zh"}, "可作为 kubectl gpu create", ""},
		"YAML of the user's":  {[]string{"run", "--image", "i", "--dry-run", "--", "gpuctl", "get"}, "command: [gpuctl, get]", ""},
	}
	t.Setenv("KUBECONFIG", "none")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, out, errOut := TestIOStreams("")
			Run(t.Context(), NewFactory(streams), append([]string{"kubectl-gpu"}, tc.args...))
			if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), tc.stdout) || !strings.Contains(errOut.String(), tc.told) {
				t.Errorf("want %q and %q\nstdout:\n%s\nstderr:\n%s", tc.stdout, tc.told, out, errOut)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	resource := schema.GroupResource{Group: "batch", Resource: "jobs"}
	tests := map[string]struct {
		err  error
		want int
	}{
		"nothing went wrong":       {nil, 0},
		"anything else":            {errors.New("x"), 1},
		"usage":                    {usageErrorf("x"), 2},
		"the server finds invalid": {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), 2},
		"not found":                {apierrors.NewNotFound(resource, "x"), 3},
		"nodes not found":          {&submit.MissingNodesError{}, 3},
		"job exists":               {&submit.ExistsError{}, 4},
		"object changed meanwhile": {apierrors.NewConflict(resource, "x", errors.New("y")), 4},
		"forbidden":                {apierrors.NewForbidden(resource, "x", nil), 5},
		"not logged in":            {apierrors.NewUnauthorized("x"), 5},
		"no answer in time":        {context.DeadlineExceeded, 9},
		"interrupted":              {context.Canceled, 130},
		"a quota refuses it":       {apierrors.NewForbidden(resource, "x", errors.New("exceeded quota: gpus")), 6},
		"no node could hold it":    {&cannotFitError{}, 7},
		"the wrong state":          {&jobplan.StateError{}, 4},
		"cannot change in place":   {&submit.ImmutableError{Cause: apierrors.NewInvalid(schema.GroupKind{}, "x", nil)}, 4},
		"labels are taken":         {&submit.TakenError{}, 4},
		"several jobs of one name": {&submit.AmbiguousError{Kinds: []string{"training"}}, 2},
		"quota not found":          {&submit.QuotaNotFoundError{}, 3},
		"a difference":             {errDiffers, 1},
		"diff fails":               {&diffError{errors.New("x")}, 2},
		"diff is forbidden":        {&diffError{apierrors.NewForbidden(resource, "x", nil)}, 5},
		"an untrusted certificate": {&url.Error{Op: "Get", Err: x509.UnknownAuthorityError{}}, 1},
		"nobody listens":           {&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, 9},
		"no job to read":           {&inventory.NotFoundError{}, 3},
		"no such rank":             {&joblogs.SelectionError{}, 2},
		"it took too long":         {&timelimit.Error{}, 8},
		"the job failed":           {jobOutcome(inventory.Job{Status: inventory.StatusFailed}), 100},
		"the job goes on":          {jobOutcome(inventory.Job{Status: inventory.StatusRunning}), 101},
		"the job was deleted":      {jobOutcome(inventory.Job{Status: inventory.StatusTerminating}), 101},
		"the job succeeded":        {jobOutcome(inventory.Job{Status: inventory.StatusSucceeded}), 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(tc.err); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
			if tc.err != nil && exitCode(fmt.Errorf("doing it: %w", tc.err)) != tc.want {
				t.Error("wrapping the error changes the exit code")
			}
		})
	}
}

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func someJobs() []inventory.Job {
	return []inventory.Job{
		{
			Name: "chat", Namespace: "team", Kind: "inference", Status: inventory.StatusRunning, Ready: 2, Desired: 2,
			GPUs: 2, GPUTypes: []string{"L40S-48G"}, Pool: "serving", Priority: "high",
			Nodes: []string{"node-1", "node-2"}, Created: now.Add(-26 * time.Hour),
		},
		{
			Name: "qwen2-7b-sft", Namespace: "team", Kind: "training", Status: inventory.StatusPending, Desired: 1, GPUs: 64,
			Pool: "training", Priority: "medium", Created: now.Add(-90 * time.Second),
			Trouble: inventory.Trouble{Reason: "TooManyGPUs", Message: "16 node(s) have fewer GPUs than the pod asks for, " +
				"48 node(s) are in another pool or have another GPU type"},
		},
	}
}

func TestTypesAreSplitFromNames(t *testing.T) {
	for line, want := range map[string]string{
		"get training/sft":                  "get job sft",
		"get -n team training/a notebook/b": "get -n team job a b",
		"get jobs training/sft -o json":     "get jobs sft -o json",
		"get pool/a pool/b":                 "get pool a b",
		"describe node/n1":                  "describe node n1",
		"get labels --key g8s.host/pool":    "get labels --key g8s.host/pool",
		"get jobs -l a/b=c":                 "get jobs -l a/b=c",
		"delete training/sft":               "delete training/sft",
		"get training/":                     "get training/",
		"exec sft -- cat job/x":             "exec sft -- cat job/x",
		"exec sft -- kubectl get job/x":     "exec sft -- kubectl get job/x",
	} {
		root := newRootCmd(NewFactory(IOStreams{}), "gpuctl")
		if got := strings.Join(splitTypes(root, strings.Fields(line)), " "); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

func TestTableOfJobs(t *testing.T) {
	tests := map[string]tableStyle{
		"jobs-pipe":       {},
		"jobs-wide":       {wide: true},
		"jobs-terminal":   {width: 100, color: true},
		"jobs-no-headers": {noHeaders: true},
	}
	for name, style := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := writeTable(&out, someJobs(), jobColumns(now, false), style); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, name, out.String())
		})
	}
}

func TestATerminalTooNarrowForAllColumnsGetsRowsThatFit(t *testing.T) {
	jobs := someJobs()
	jobs[0].Name, jobs[0].Pool, jobs[0].Nodes = "qwen2-7b-llamafactory-sft", "inference-pool", []string{"infer-a100-02", "infer-a100-03"}
	var columns stickyColumns
	for range 2 { // the second table of a watch has the columns of the first
		var out bytes.Buffer
		if err := writeTable(&out, jobs, jobColumns(now, false), tableStyle{width: 100, sticky: &columns}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 101 || strings.Contains(line, "GPU-TYPE") {
				t.Errorf("%d columns: %s", len(line)-1, line)
			}
		}
		jobs[0].Name = "x"
	}
}

func TestAccessOfRanksIsNoPage(t *testing.T) {
	job := inventory.JobDetail{Job: inventory.Job{Name: "dist", Namespace: "team"}}
	got := accessHints(job, inventory.Service{Name: "svc-dist", ClusterIP: corev1.ClusterIPNone, Port: 29500})
	if len(got) != 1 || got[0].String() != "between its pods:   svc-dist.team:29500" {
		t.Errorf("hints are %v", got)
	}
}

func TestDescribeJob(t *testing.T) {
	exit := int32(137)
	detail := inventory.JobDetail{
		Job:         someJobs()[1],
		Description: "fine-tuning",
		Container: inventory.Container{
			Image: "llama-factory:v1", Command: []string{"train"}, Args: []string{"--lr", "1e-4"},
			Requests: map[string]string{"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "64"},
		},
		Services: []inventory.Service{{Name: "svc-x", Port: 8000, NodePort: 30080}},
		Events: []inventory.Event{{
			Type: "Warning", Reason: "FailedScheduling", Object: "Pod/x-1", Message: "no node", Count: 3, Last: now.Add(-time.Minute),
		}},
	}
	detail.Started, detail.Restarts = ptr.To(now.Add(-time.Minute)), 2
	detail.Pods = []inventory.Pod{{Name: "x-1", Phase: "Pending", Restarts: 2, ExitCode: &exit, Created: now.Add(-time.Minute)}}
	streams, out, _ := TestIOStreams("")
	if err := describeJob(newDescription(streams), detail, nil, now); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "describe-job", out.String())
}

func TestAWatchPrintsOnlyWhatChanged(t *testing.T) {
	streams, out, errOut := TestIOStreams("")
	l := listing[inventory.Job]{
		io: streams, now: func() time.Time { return now }, noun: "job", output: newOutput(outputTable),
		columns: func(now time.Time) []column[inventory.Job] { return jobColumns(now, false) },
		name:    func(j inventory.Job) string { return j.Name },
		id:      func(j inventory.Job) string { return j.Name },
	}
	report := l.newChangePrinter(t.Context(), func(error) {})
	jobs := someJobs()
	report(jobs)
	report(jobs)
	changed := someJobs()
	changed[1].Status, changed[1].Trouble = inventory.StatusRunning, inventory.Trouble{}
	report(changed)
	report(changed[1:])
	compareGolden(t, "watch", out.String()+"--- stderr\n"+errOut.String())
}
