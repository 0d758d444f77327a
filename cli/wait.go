package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

// goal is the state to wait for.
type goal string

const (
	goalRunning   goal = "running"
	goalReady     goal = "ready"
	goalDone      goal = "done"
	goalSucceeded goal = "succeeded"
	goalFailed    goal = "failed"
	goalDeleted   goal = "deleted"
)

var goals = []string{
	string(goalRunning), string(goalReady), string(goalDone), string(goalSucceeded), string(goalFailed), string(goalDeleted),
}

// String implements pflag.Value.
func (g *goal) String() string { return string(*g) }

// Type implements pflag.Value.
func (g *goal) Type() string { return "state" }

// Set implements pflag.Value.
func (g *goal) Set(text string) error {
	if !slices.Contains(goals, text) {
		return phrase.Errorf("want one of %s%s", strings.Join(goals, ", "), spelling.DidYouMean(text, goals))
	}
	*g = goal(text)
	return nil
}

// isReachedBy reports whether a job has reached the goal, with an error if it never will.
func (g goal) isReachedBy(job inventory.Job) (bool, error) {
	finished := slices.Contains([]inventory.Status{
		inventory.StatusSucceeded, inventory.StatusFailed, inventory.StatusCancelled,
	}, job.Status)
	switch g {
	case goalDeleted:
		return false, nil // a deleted job is in no list
	case goalRunning, goalReady:
		return g.isUp(job)
	case goalFailed:
		switch job.Status {
		case inventory.StatusSucceeded:
			return false, phrase.Errorf("job %s has succeeded", job.Name)
		case inventory.StatusCancelled:
			return false, jobOutcome(job)
		}
		return finished, nil
	}
	if job.Object.Kind == "Deployment" {
		return false, usageErrorf("job %s is of kind %s, which goes on until it is deleted\nWait until it serves: gpuctl wait %s --for=ready",
			job.Name, job.Kind, job.Name)
	}
	if finished {
		return true, jobOutcome(job)
	}
	return false, nil
}

// isUp reports whether a job runs or has run, with an error if it never will.
func (g goal) isUp(job inventory.Job) (bool, error) {
	switch job.Status {
	case inventory.StatusFailed, inventory.StatusCancelled:
		return false, jobOutcome(job)
	case inventory.StatusSucceeded:
		return true, nil
	}
	runs := job.Status == inventory.StatusRunning || job.Status == inventory.StatusDegraded || job.Ready > 0
	return job.RunsWhole() || g == goalRunning && runs, nil
}

type waitOptions struct {
	factory *Factory
	names   []string
	goal    goal
	timeout time.Duration
}

func newWaitCmd(f *Factory) *cobra.Command {
	o := &waitOptions{factory: f, goal: goalDone}
	cmd := &cobra.Command{
		Use:   "wait JOB...",
		Short: "Wait until jobs are done, or run, or are gone",
		Long: "Wait until every named job is as --for says, and tell on standard error what it waits for meanwhile:\n" +
			"  running    a pod of it runs; a job that has succeeded by then counts\n" +
			"  ready      all its pods run and are ready\n" +
			"  done       it has ended; exit code 0 if it succeeded, 100 if it failed\n" +
			"  succeeded  the same, under kubectl's name\n" +
			"  failed     it has failed\n" +
			"  deleted    neither it nor a pod of it is left, so its GPUs are free\n\n" +
			"What can never come ends the waiting at once: a failed job will not be ready.",
		Example: "  gpuctl wait qwen2-sft && ./evaluate.sh\n" +
			"  gpuctl wait chat --for=ready --timeout=10m\n" +
			"  gpuctl delete qwen2-sft --wait=false; gpuctl wait qwen2-sft --for=deleted",
		Args: requireArgs(phrase.Textf("the names of jobs")),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = jobNames(args)
			return runWait(cmd.Context(), o)
		},
		ValidArgsFunction: completeJobs(f),
	}
	cmd.Flags().Var(&o.goal, "for", "What to wait for: "+strings.Join(goals, ", "))
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "How long to wait, such as 30m; 0 means no limit")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(goals, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// requireArgs requires arguments, and says what they are.
func requireArgs(what phrase.Text) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageErrorf("%s needs %s\nSee '%s --help'", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

func runWait(ctx context.Context, o *waitOptions) error {
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return err
	}
	w := &waiter{factory: o.factory, namespace: namespace, names: o.names, goal: o.goal, timeout: o.timeout}
	w.onReached = func(name, outcome string) { fmt.Fprintf(o.factory.IO.Out, "job/%s %s\n", name, outcome) }
	err = w.waitForJobs(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		o.factory.IO.printErr("%s", comeBackText(o.names, namespace))
	}
	return err
}

// comeBackText says how to continue after an interruption, which does not affect the jobs.
func comeBackText(names []string, namespace string) phrase.Text {
	if len(names) == 1 {
		return phrase.Textf("The job goes on. Come back to it: gpuctl logs %s -n %s -f", names[0], namespace)
	}
	return phrase.Textf("The jobs go on. Come back to them: gpuctl wait %s -n %s", strings.Join(names, " "), namespace)
}

// waiter waits for jobs of one namespace.
type waiter struct {
	factory   *Factory
	namespace string
	names     []string
	goal      goal
	timeout   time.Duration
	// onReached is called once for every job that has reached the goal.
	onReached func(name, outcome string)

	seen, done map[string]bool
	failure    error
}

// errDone ends a watch whose goal is reached.
var errDone = errors.New("done")

// waitForJobs returns when all jobs have reached the goal, or one of them never will.
func (w *waiter) waitForJobs(ctx context.Context) error {
	client, err := w.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	w.seen, w.done = map[string]bool{}, map[string]bool{}
	query := inventory.JobQuery{Namespace: w.namespace}
	if len(w.names) == 1 {
		query.Name = w.names[0]
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.timeout > 0 {
		timer := time.AfterFunc(w.timeout, func() { cancel(&timelimit.Error{After: w.timeout, What: w.timeoutText()}) })
		defer timer.Stop()
	}
	story := newJobStatus(w.factory, client)
	defer story.endLine()
	print := w.onReached
	w.onReached = func(name, outcome string) {
		story.line.clearLine() // so that the line does not precede the output
		print(name, outcome)
	}
	err = story.lineHeartbeat().guardWatch(ctx, func(ctx context.Context) error {
		return inventory.NewReader(client).WithLostHandler(story.staleReporter()).WatchJobs(ctx, query, func(jobs []inventory.Job) {
			finished, err := w.checkJobs(jobs)
			switch {
			case err != nil:
				cancel(err)
			case finished:
				cancel(cmp.Or(w.failure, errDone))
			default:
				w.reportProgress(ctx, story, jobs)
			}
		})
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	switch {
	case errors.Is(err, errDone):
		return nil
	case isA[*timelimit.Error](err):
		story.line.endKeepingText()
	}
	return err
}

// timeoutText describes what was not reached in time.
func (w *waiter) timeoutText() phrase.Text {
	if len(w.names) == 1 {
		return phrase.Textf("job %[1]s is not %[2]s\nSee: gpuctl why %[1]s -n %[3]s", w.names[0], w.goal, w.namespace)
	}
	return phrase.Textf("jobs %s are not %s\nSee: gpuctl get jobs -n %s", strings.Join(w.names, ", "), w.goal, w.namespace)
}

// checkJobs reports whether the wait is over. The error of a failed job is kept until all others are done.
func (w *waiter) checkJobs(jobs []inventory.Job) (finished bool, err error) {
	for _, name := range w.names {
		if w.done[name] {
			continue
		}
		reached, outcome, err := w.checkJob(jobs, name)
		switch {
		case err != nil && !reached:
			return false, err
		case !reached:
			continue
		case err != nil && w.failure == nil:
			w.failure = err
		}
		w.done[name] = true
		w.onReached(name, outcome)
	}
	return len(w.done) == len(w.names), nil
}

func (w *waiter) checkJob(jobs []inventory.Job, name string) (reached bool, outcome string, err error) {
	var named []inventory.Job
	for _, job := range jobs {
		if job.Name == name {
			named = append(named, job)
		}
	}
	query := inventory.JobQuery{Namespace: w.namespace, Name: name}
	job, err := query.OnlyJob(named)
	switch {
	case len(named) == 0 && w.goal == goalDeleted:
		return true, "deleted", nil
	case len(named) == 0 && w.seen[name]:
		return false, "", &outcomeError{code: exitNotFinished, text: phrase.Textf("job %s was deleted", name)}
	case err != nil:
		return false, "", err
	}
	w.seen[name] = true
	reached, err = w.goal.isReachedBy(job)
	return reached, strings.ToLower(string(job.Status)), err
}

// reportProgress reports what is waited for: for one job the reason, for several jobs their names.
func (w *waiter) reportProgress(ctx context.Context, story *jobStatus, jobs []inventory.Job) {
	left := slices.DeleteFunc(slices.Clone(w.names), func(name string) bool { return w.done[name] })
	if len(left) > 1 {
		text := phrase.Textf("Waiting for %d of %d jobs: %s", len(left), len(w.names), strings.Join(left, ", "))
		story.line.setText(text.Localize(w.factory.outputLanguage()))
		return
	}
	for _, job := range jobs {
		if job.Name == left[0] {
			story.reportJob(ctx, job)
		}
	}
}
