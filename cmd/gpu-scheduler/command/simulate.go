package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// Files that production uses, within the manifests.
const (
	shippedConfig = "scheduler/scheduler-config.yaml"
	shippedPolicy = "scheduler/score-policy.yaml"
)

const simulateLong = `Place a workload on a cluster in memory, through the plugins and the configuration
file of production, and say how many GPUs end up allocated and which pods fit nowhere.
No API server is asked and nothing is changed. Equal inputs give equal results.

--cluster is what "kubectl get nodes,pods -A -o yaml" prints (the pods on the nodes stay
where they are, those without a node are placed first), or the node list of an openb
trace as CSV. --workload is gpuctl YAML, Kubernetes YAML, or the pod list of an openb
trace. Files may be packed with gzip. Several --config or --policy are compared.`

const simulateExample = `  # Where would this job go now?
  kubectl get nodes,pods -A -o yaml > now.yaml
  gpu-scheduler simulate --cluster now.yaml --workload train.yaml -o json

  # Which of two scoring policies leaves fewer GPUs unallocated?
  gpu-scheduler simulate --cluster now.yaml --workload week.yaml \
    --policy pack.yaml --policy spread.yaml --report compare.html

  # What would these weights have done to last week's jobs?
  gpu-scheduler simulate --recording week.jsonl.gz \
    --policy today.yaml --policy proposed.yaml --report compare.html

  # Which moves of running pods would let waiting ones start?
  gpu-scheduler simulate --cluster now.yaml --moves 16

  # The published benchmark, one seed
  gpu-scheduler simulate --cluster nodes.csv --workload pods.csv --arrivals published --seed 42`

// simulation is the request of the user.
type simulation struct {
	cluster, report   string
	recording         string
	workloads         []string
	configs, policies []string
	arrivals, output  string
	seed              int64
	moves             int
	movesEvery        time.Duration
	// past is the earlier run times of jobs, nil if unknown.
	past          *survival.History
	out, progress io.Writer
}

func newSimulateCommand() *cobra.Command {
	s := &simulation{}
	cmd := &cobra.Command{
		Use:     "simulate --cluster FILE [--workload FILE]...",
		Short:   "Replay a workload against a cluster in memory",
		Long:    simulateLong,
		Example: simulateExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.out, s.progress = cmd.OutOrStdout(), cmd.ErrOrStderr()
			silenceLogs()
			return reportError(cmd, s.runSimulation(cmd.Context()))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.cluster, "cluster", "", "Nodes, and pods on them: YAML, JSON or the CSV of a trace")
	flags.StringArrayVar(&s.workloads, "workload", nil, "What to place: gpuctl YAML, Kubernetes YAML or the CSV of a trace (repeatable)")
	flags.StringVar(&s.recording, "recording", "", "In place of both: what gpu-scheduler simulate record wrote")
	s.addConfigFlags(flags)
	flags.StringVar(&s.arrivals, "arrivals", arriveListed,
		"How the pods of a trace come: listed, timed (as recorded), or published (shuffled and inflated, as in the ATC'23 benchmark)")
	flags.IntVar(&s.moves, "moves", 0, "Move at most so many running pods for one that waits, as gpuctl advise defrag --apply does (default none)")
	flags.DurationVar(&s.movesEvery, "moves-every", time.Hour, "With --moves: how long from one advice to the next, in simulated time")
	flags.StringVarP(&s.output, "output", "o", "table", "Output: table, json, or csv (allocation by percent asked for)")
	flags.StringVar(&s.report, "report", "", "Write a page with plots to this file too, .html, or the plot of the allocation alone, .svg")
	cmd.AddCommand(newRecordCommand(), newVerifyCommand(), newAnswerCommand())
	cmd.SetUsageFunc((&cobra.Command{}).UsageFunc()) // that of the parent lists the scheduler's own flags
	cmd.SetHelpFunc((&cobra.Command{}).HelpFunc())
	return cmd
}

// addConfigFlags adds the flags for the configurations to try.
func (s *simulation) addConfigFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.configs, "config", nil, "Configuration of the scheduler (repeatable; default is the one that is shipped)")
	flags.StringArrayVar(&s.policies, "policy", nil, "Scoring policy, in place of that of the configuration (repeatable)")
	flags.Int64Var(&s.seed, "seed", 0, "Decides what is left to chance: the order of published arrivals, and which of equal nodes is taken. Production has 0")
}

func (s *simulation) runSimulation(ctx context.Context) error {
	write, err := s.resultWriter()
	if err != nil {
		return err
	}
	moves, err := s.allowedMoves()
	if err != nil {
		return err
	}
	candidates, err := s.readCandidates()
	if err != nil {
		return err
	}
	cluster, arrivals, err := s.readInput(candidates)
	if err != nil {
		return err
	}
	var results []*simulate.Result
	for _, candidate := range candidates {
		bar := newProgressBar(s.progress, candidate.Name, len(arrivals))
		result, err := simulate.Run(ctx, cluster, arrivals, candidate, simulate.Options{
			Seed: s.seed, Progress: func(int) { _ = bar.Add(1) }, // a bar that cannot be drawn is no reason to stop
			Moves: moves, Start: cluster.Began, Past: s.past,
		})
		if err != nil {
			return fmt.Errorf("simulating %s: %w", candidate.Name, err)
		}
		results = append(results, result)
	}
	if err := write(s.out, results); err != nil {
		return err
	}
	return s.writeReport(results)
}

// allowedMoves returns what may be moved, nil for nothing.
func (s *simulation) allowedMoves() (*simulate.Moves, error) {
	if s.moves < 0 || s.movesEvery <= 0 {
		return nil, fmt.Errorf("--moves is %d and --moves-every is %s, want no negative number, and some time", s.moves, s.movesEvery)
	}
	if s.moves == 0 {
		return nil, nil
	}
	return &simulate.Moves{Limits: defrag.Limits{Moves: s.moves, MinRun: defrag.DefaultLimits.MinRun}, Every: s.movesEvery}, nil
}

// silenceLogs keeps the scheduler's logs out of the output. Failures are returned.
func silenceLogs() {
	klog.SetLogger(logr.Discard())
}

// newProgressBar shows how far a run is, on a terminal only.
func newProgressBar(w io.Writer, name string, total int) *progressbar.ProgressBar {
	if file, ok := w.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return progressbar.DefaultSilent(int64(total))
	}
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
}

func (s *simulation) resultWriter() (func(io.Writer, []*simulate.Result) error, error) {
	if s.report != "" && !slices.Contains([]string{".html", ".svg"}, filepath.Ext(s.report)) {
		return nil, fmt.Errorf("--report is %q, want a name that ends in .html or .svg", s.report)
	}
	switch s.output {
	case "table":
		return simulate.WriteTable, nil
	case "json":
		return simulate.WriteJSON, nil
	case "csv":
		return simulate.WriteCSV, nil
	}
	return nil, fmt.Errorf("--output is %q, want table, json or csv", s.output)
}

func (s *simulation) writeReport(results []*simulate.Result) error {
	if s.report == "" {
		return nil
	}
	file, err := os.Create(s.report)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if strings.HasSuffix(s.report, ".svg") {
		_, err = file.Write(simulate.DrawPlots(results)[0]) // the allocation; a page has all of them
	} else {
		err = simulate.WriteHTML(file, results)
	}
	return errors.Join(err, file.Close())
}

// readCandidates are the configurations to compare: each --config with each --policy.
func (s *simulation) readCandidates() ([]simulate.Candidate, error) {
	configs := s.configs
	if len(configs) == 0 {
		configs = []string{""}
	}
	var candidates []simulate.Candidate
	for _, path := range configs {
		if len(s.policies) == 0 {
			cfg, err := s.readConfig(path)
			if err != nil {
				return nil, err
			}
			candidates = append(candidates, simulate.Candidate{Name: configName(path), Config: cfg})
		}
		for _, policy := range s.policies {
			candidate, err := s.withPolicy(path, policy)
			if err != nil {
				return nil, err
			}
			candidates = append(candidates, candidate)
		}
	}
	return candidates, nil
}

func (s *simulation) withPolicy(path, policy string) (simulate.Candidate, error) {
	cfg, err := s.readConfig(path)
	if err != nil {
		return simulate.Candidate{}, err
	}
	data, err := os.ReadFile(policy)
	if err != nil {
		return simulate.Candidate{}, fmt.Errorf("reading --policy: %w", err)
	}
	if err := simulate.SetPolicy(cfg, data); err != nil {
		return simulate.Candidate{}, fmt.Errorf("reading --policy %s: %w", policy, err)
	}
	name := configName(policy)
	if len(s.configs) > 1 {
		name = configName(path) + ", " + name
	}
	return simulate.Candidate{Name: name, Config: cfg}, nil
}

// readConfig reads a configuration, "" for the shipped one. Its policy files are read now.
func (s *simulation) readConfig(path string) (*config.KubeSchedulerConfiguration, error) {
	data, err := manifests.FS.ReadFile(shippedConfig)
	if path != "" {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading --config: %w", err)
	}
	cfg, err := simulate.ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading --config %s: %w", path, err)
	}
	if path == "" {
		policy, err := manifests.FS.ReadFile(shippedPolicy)
		if err != nil {
			return nil, fmt.Errorf("reading the scoring policy: %w", err)
		}
		return cfg, simulate.SetPolicy(cfg, policy)
	}
	missing, err := simulate.ReadPolicyFiles(cfg)
	if err != nil {
		return nil, err
	}
	if len(s.policies) == 0 {
		for _, file := range missing {
			fmt.Fprintf(s.progress, "%s: there is no policyFile %s here, so the other arguments apply; --policy names one\n", path, file)
		}
	}
	return cfg, nil
}

func configName(path string) string {
	if path == "" {
		return "shipped"
	}
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}
