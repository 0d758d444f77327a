package cli

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type logsOptions struct {
	factory *Factory
	stream  joblogs.Options
	// Flag values as given; "" and a negative tail mean not set.
	tail      int64
	rank      rankFlag
	since     time.Duration
	sinceTime string
	match     string

	timestamps, noPrefix, exitCode bool
	ledger                         ledgerOptions
	output                         *output
}

// rankFlag is the number of one rank, or of one task.
type rankFlag struct{ chosen *int }

// String implements pflag.Value.
func (r *rankFlag) String() string {
	if r.chosen == nil {
		return ""
	}
	return strconv.Itoa(*r.chosen)
}

// Type implements pflag.Value.
func (r *rankFlag) Type() string { return "int" }

// Set implements pflag.Value.
func (r *rankFlag) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return phrase.Errorf("want one number, 0 or more")
	}
	r.chosen = &number
	return nil
}

func newLogsCmd(f *Factory) *cobra.Command {
	o := &logsOptions{factory: f, output: newOutput("", outputJSON)}
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of a job, of all its pods",
		Long: "Print the output of a job: of all its pods, those that failed included. When there are several, each line\n" +
			"begins with the rank or the name of its pod, and lines come in the order of their time.\n\n" +
			"With -f it goes on until the job has ended, and follows pods that come later. A job that has not started\n" +
			"is waited for; what it waits for is told on standard error. With --exit-code the exit code is then that of\n" +
			"the container which failed first, 0 if the job succeeded.\n\n" +
			"A terminal gets the colours of the output, and written out what else it would obey; a pipe gets what the\n" +
			"programs printed: gpuctl logs JOB | cat.\n\n" +
			"Of a job whose pods are gone, the end of the output is printed where the ledger has kept it (--ledger).\n\n" +
			"-o json gives {items: [...]}, with -f a line of JSON for each line of output. What the ledger has kept comes\n" +
			"with {kept: {truncated, incomplete}}: what there is not all of.",
		Example: "  gpuctl logs qwen2-sft -f\n" +
			"  gpuctl logs qwen2-sft --since 10m --grep 'loss|error'\n" +
			"  gpuctl logs llama-pretrain --rank 3 --tail 100\n" +
			"  gpuctl logs sweep --index 17\n" +
			"  gpuctl logs qwen2-sft -f --exit-code && echo trained",
		Args: requireOneArg(phrase.Textf("the name of one job")),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.stream.Job = jobName(args[0])
			return runLogs(cmd.Context(), o)
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.addFlags(cmd.Flags())
	o.ledger.addFlags(cmd.Flags())
	o.output.addTo(cmd)
	return cmd
}

func (o *logsOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&o.stream.Follow, "follow", "f", false, "Print new output as it comes, until the job has ended")
	flags.BoolVarP(&o.stream.Previous, "previous", "p", false, "Print the output of the run before the last restart")
	flags.Int64Var(&o.tail, "tail", -1, "Print only this many of the last lines of each pod; -1 is all")
	flags.DurationVar(&o.since, "since", 0, "Print only what is not older than this, such as 10m")
	flags.StringVar(&o.sinceTime, "since-time", "", "Print only what is not older than this time, such as 2026-11-01T12:00:00Z")
	flags.StringVar(&o.stream.Pod, "pod", "", "Print only the output of this pod")
	flags.Var(&o.rank, "rank", "Print only the output of this rank of a job of several nodes")
	flags.Var(&o.rank, "index", "Print only the output of this task of an array")
	flags.StringVarP(&o.stream.Container, "container", "c", "", "Print the output of this container of each pod")
	flags.StringVar(&o.match, "grep", "", "Print only the lines that this regular expression matches")
	flags.BoolVar(&o.timestamps, "timestamps", false, "Begin each line with its time")
	flags.BoolVar(&o.noPrefix, "no-prefix", false, "Never begin a line with its pod")
	flags.BoolVar(&o.exitCode, "exit-code", false, "With -f: end with the exit code of the job")
	flags.IntVar(&o.stream.MaxStreams, "max-streams", joblogs.DefaultMaxStreams, "How many containers may be read at a time")
}

// completeOptions converts the flags into options of the stream.
func (o *logsOptions) completeOptions() (err error) {
	if err := o.checkFlags(); err != nil {
		return err
	}
	if o.since != 0 {
		o.stream.Since = o.factory.Now().Add(-o.since)
	}
	if o.sinceTime != "" {
		if o.stream.Since, err = time.Parse(time.RFC3339, o.sinceTime); err != nil {
			return usageErrorf("--since-time is %q, want a time such as 2026-11-01T12:00:00Z", o.sinceTime)
		}
	}
	if o.match != "" {
		if o.stream.Match, err = regexp.Compile(o.match); err != nil {
			return usageErrorf("--grep: %w", err)
		}
	}
	if o.tail >= 0 {
		o.stream.Tail = &o.tail
	}
	o.stream.Rank = o.rank.chosen
	o.stream.Namespace, err = o.factory.currentNamespace()
	return err
}

// checkFlags refuses contradicting flags.
func (o *logsOptions) checkFlags() error {
	switch {
	case o.exitCode && !o.stream.Follow:
		return usageErrorf("--exit-code needs -f: a job that goes on has no exit code yet")
	case o.stream.Previous && o.stream.Follow:
		return usageErrorf("a run that has ended cannot be followed: give either --previous or -f")
	case o.since != 0 && o.sinceTime != "":
		return usageErrorf("give either --since or --since-time")
	case o.stream.MaxStreams < 1:
		return usageErrorf("--max-streams is %d, want at least 1", o.stream.MaxStreams)
	}
	return nil
}

func runLogs(ctx context.Context, o *logsOptions) error {
	if err := o.completeOptions(); err != nil {
		return err
	}
	return o.printLogs(ctx)
}

// printLogs prints the output that the options select.
func (o *logsOptions) printLogs(ctx context.Context) error {
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	job, err := o.streamLogs(ctx, client)
	if o.isOutputGone(err) && o.printPastOutput(ctx, o.isPast(err)) {
		return nil
	}
	var none *joblogs.NoOutputError
	switch {
	case errors.As(err, &none):
		return o.noOutput(ctx, client, none)
	case ctx.Err() != nil && o.stream.Follow && !o.exitCode:
		return nil // an interrupt is the normal end of following
	case ctx.Err() != nil && o.exitCode:
		return &outcomeError{code: exitNotFinished, text: phrase.Textf("job %s has not finished", o.stream.Job)}
	case err != nil || !o.exitCode:
		return err
	}
	return programOutcome(job)
}

// streamLogs copies the output of the job to stdout, and reports on stderr what the job waits for.
func (o *logsOptions) streamLogs(ctx context.Context, client kubernetes.Interface) (inventory.Job, error) {
	printer := &logPrinter{io: o.factory.IO, timestamps: o.timestamps, noPrefix: o.noPrefix}
	if o.output != nil && o.output.format == outputJSON {
		printer.json = &jsonLines{out: o.factory.IO.Out, list: !o.stream.Follow}
	}
	story := newJobStatus(o.factory, client)
	defer story.endLine()
	events := joblogs.Events{
		Line: func(line joblogs.Line) error {
			story.endLine()
			return printer.printLine(line)
		},
		State: func(job inventory.Job) {
			printer.preparePods(job)
			if o.stream.Follow && !hasStarted(job) && job.Finished == nil {
				story.reportJob(ctx, job)
			}
		},
		Trouble: func(source joblogs.Source, err error) {
			o.factory.IO.printErr("%s: %v", source.Pod, err)
		},
	}
	var job inventory.Job
	stream := func(ctx context.Context, jobs *inventory.Reader) (err error) {
		job, err = joblogs.StreamWithJobs(ctx, client, jobs, o.stream, events)
		return err
	}
	var err error
	if o.stream.Follow {
		err = o.factory.watchWithHeartbeat(ctx, stream)
	} else {
		err = stream(ctx, inventory.NewReader(client))
	}
	return job, errors.Join(err, printer.endOutput(err))
}

// noOutput explains why there is nothing to print, and what to do.
func (o *logsOptions) noOutput(ctx context.Context, client kubernetes.Interface, none *joblogs.NoOutputError) error {
	job := none.Job
	switch {
	case none.Previous:
		return phrase.Errorf("%w\nLeave out --previous to print the output of the newest run", none)
	case none.Rank != nil && job.Array != nil && job.Finished != nil:
		return none
	case none.Rank != nil && job.Array != nil && job.Status != inventory.StatusTerminating:
		return phrase.Errorf("%w\nWait for it: gpuctl logs %s -n %s --index %d -f", none, job.Name, job.Namespace, *none.Rank)
	case job.Finished != nil:
		return phrase.Errorf("job %s has %s, and its pods are gone with their output", job.Name, strings.ToLower(string(job.Status)))
	case job.Status == inventory.StatusTerminating:
		return &outcomeError{code: exitNotFinished, text: phrase.Textf("job %s was deleted before it had any output", job.Name)}
	}
	why := ": " + localizeReason(job.Trouble, o.factory.outputLanguage())
	if report, err := diagnoseJob(ctx, client, job, o.factory); err == nil {
		why = headlineText(report, o.factory.outputLanguage())
	}
	return phrase.Errorf("%w%s\nWait for it: gpuctl logs %s -n %s -f", none, why, job.Name, job.Namespace)
}

// hasStarted reports whether any container of a job has run.
func hasStarted(job inventory.Job) bool {
	for _, pod := range job.Pods {
		for _, container := range pod.Containers {
			if container.Started != nil {
				return true
			}
		}
	}
	return false
}
