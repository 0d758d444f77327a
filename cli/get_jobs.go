package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/workload"
)

type getJobsOptions struct {
	listing[inventory.Job]
	factory             *Factory
	gpuType, kind       string
	status, user        string
	selector            string
	mine, allNamespaces bool
	pods                podOptions
	finished            finishedOptions
}

func newGetJobsCmd(f *Factory) *cobra.Command {
	o := &getJobsOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "jobs [NAME]...",
		Aliases: []string{"job", "j"},
		Short:   "List jobs, one line each, with the reason when one does not run",
		Example: "  gpuctl get jobs -A\n  gpuctl get jobs --pool training-pool --kind training\n  gpuctl get job qwen2-sft -w\n" +
			"  gpuctl get jobs --finished --since 7d --mine",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = jobNames(args)
			return runGetJobs(cmd.Context(), o)
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.listing = listing[inventory.Job]{
		io: f.IO, now: f.Now, noun: "job",
		columns: func(now time.Time) []column[inventory.Job] { return jobColumns(now, o.allNamespaces) },
		name:    func(j inventory.Job) string { return j.Name },
		id:      func(j inventory.Job) string { return j.Namespace + "/" + j.Kind + "/" + j.Name },
		print:   func(j inventory.Job) string { return j.Kind + "/" + j.Name },
	}
	o.addFlags(cmd)
	o.addPoolFlag(cmd, f, "Only jobs of this pool")
	cmd.Flags().StringVar(&o.gpuType, "gpu-type", "", "Only jobs that ask for this type of GPU")
	cmd.Flags().StringVar(&o.kind, "kind", "", "Only jobs of this kind, such as training or RayCluster")
	cmd.Flags().StringVar(&o.status, "status", "", "Only jobs of this status: "+strings.Join(statusNames(), ", "))
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "Only jobs that match this label selector")
	cmd.Flags().StringVar(&o.user, "user", "", "Only jobs that this user submitted")
	cmd.Flags().BoolVar(&o.mine, "mine", false, "Only jobs that you submitted")
	cmd.Flags().BoolVar(&o.pods.show, "pods", false, "List the pods of the jobs, one line each")
	o.finished.addFlags(cmd)
	o.addNamespaceFlag(cmd, f, &o.allNamespaces, "List the jobs of all namespaces")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statusNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(shownKinds(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runGetJobs(ctx context.Context, o *getJobsOptions) error {
	if err := checkShownKind(&o.kind); err != nil {
		return err
	}
	if err := o.checkStatus(); err != nil {
		return err
	}
	query, err := o.jobQuery()
	if err != nil {
		return err
	}
	if o.mine {
		if o.user, err = o.factory.whoAmI(ctx); err != nil {
			return err
		}
	}
	if o.finished.show {
		return o.runFinished(ctx)
	}
	reader, err := o.factory.newReader()
	if err != nil {
		return err
	}
	read := func(ctx context.Context) ([]inventory.Job, error) {
		jobs, err := reader.Jobs(ctx, query)
		return o.filterJobs(jobs), err
	}
	watch := func(ctx context.Context, report func([]inventory.Job)) error {
		return o.factory.watchWithHeartbeat(ctx, func(ctx context.Context, reader *inventory.Reader) error {
			return reader.WatchJobs(ctx, query, func(jobs []inventory.Job) { report(o.filterJobs(jobs)) })
		})
	}
	if o.pods.show {
		return o.runPods(ctx, read, watch)
	}
	return o.runListing(ctx, read, watch)
}

// runWatch runs a watch until it fails or the user interrupts it. An interrupt is a success: it is the normal end of a watch.
func runWatch(ctx context.Context, watch func(context.Context, context.CancelCauseFunc) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := watch(inner, cancel)
	if ctx.Err() != nil {
		return nil
	}
	if inner.Err() != nil {
		return context.Cause(inner)
	}
	return err
}

func (o *getJobsOptions) jobQuery() (inventory.JobQuery, error) {
	query := inventory.JobQuery{Selector: o.selector, Foreign: true}
	if len(o.names) == 1 {
		query.Name = o.names[0]
	}
	if o.allNamespaces {
		return query, nil
	}
	namespace, err := o.factory.currentNamespace()
	query.Namespace = namespace
	return query, err
}

func (o *getJobsOptions) filterJobs(jobs []inventory.Job) []inventory.Job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j inventory.Job) bool {
		return o.pool != "" && j.Pool != o.pool ||
			o.status != "" && string(j.Status) != o.status ||
			o.user != "" && j.User != o.user ||
			o.kind != "" && j.Kind != o.kind ||
			o.gpuType != "" && !slices.Contains(j.GPUTypes, o.gpuType)
	})
}

func statusNames() []string {
	out := make([]string, len(inventory.Statuses))
	for i, status := range inventory.Statuses {
		out[i] = string(status)
	}
	return out
}

// checkStatus also accepts the status that only finished jobs have.
func (o *getJobsOptions) checkStatus() error {
	if o.finished.show && strings.EqualFold(o.status, ledger.OutcomeDeleted) {
		o.status = ledger.OutcomeDeleted
		return nil
	}
	return checkStatus(&o.status)
}

// checkStatus refuses an unknown status, and normalizes its case.
func checkStatus(status *string) error {
	if *status == "" {
		return nil
	}
	for _, known := range statusNames() {
		if strings.EqualFold(known, *status) {
			*status = known
			return nil
		}
	}
	return usageErrorf("unknown status %q%s: want one of %s", *status, spelling.DidYouMean(*status, statusNames()), strings.Join(statusNames(), ", "))
}

func jobKinds() []string {
	var out []string
	for _, kind := range workload.Kinds {
		if kind.IsJob() {
			out = append(out, string(kind))
		}
	}
	return out
}

// shownKinds are the kinds of jobs of gpuctl, and those of workloads that it shows.
func shownKinds() []string { return append(jobKinds(), gang.WorkloadKinds()...) }

// findShownKind returns a kind that is shown, in its own case, "" for an unknown one.
func findShownKind(word string) string {
	for _, kind := range shownKinds() {
		if strings.EqualFold(kind, word) {
			return kind
		}
	}
	return ""
}

// checkShownKind refuses an unknown kind, and normalizes its case. Any operator may have a kind, which is written like an object's.
func checkShownKind(kind *string) error {
	if known := findShownKind(*kind); known != "" {
		*kind = known
	}
	if *kind == "" || findShownKind(*kind) != "" || unicode.IsUpper([]rune(*kind)[0]) {
		return nil
	}
	return usageErrorf("unknown kind %q%s: want one of %s", *kind, spelling.DidYouMean(*kind, shownKinds()), strings.Join(shownKinds(), ", "))
}

// jobColumns returns the columns of jobs. The last column of the narrow table shows where a job runs, or why it does not.
func jobColumns(now time.Time, namespaces bool) []column[inventory.Job] {
	type job = inventory.Job
	columns := []column[job]{
		{header: "NAME", elastic: true, value: func(j job) string { return j.Name }},
		{header: "KIND", lesser: true, value: func(j job) string { return j.Kind }},
		{header: "STATUS", value: func(j job) string { return string(j.Status) }, color: statusColor},
		{header: "READY", value: func(j job) string { return fmt.Sprintf("%d/%d", j.Ready, j.Desired) }},
		{header: "GPUS", value: func(j job) string { return strconv.FormatInt(j.GPUs, 10) }},
		{header: "GPU-TYPE", narrow: true, spare: true, worded: true, value: firstGPUType},
		{header: "GPU-TYPE", wide: true, worded: true, value: gpuTypesOf},
		{header: "POOL", elastic: true, lesser: true, value: func(j job) string { return j.Pool }},
		{header: "PRIORITY", wide: true, value: func(j job) string { return j.Priority }},
		{header: "USER", wide: true, value: func(j job) string { return j.User }},
		{header: "AGE", value: func(j job) string {
			if now.IsZero() {
				return ""
			}
			return formatAge(now, j.Created)
		}},
		{header: "DURATION", wide: true, value: func(j job) string { return runDuration(j, now) }},
		{header: "RESTARTS", wide: true, value: func(j job) string { return strconv.Itoa(int(j.Restarts)) }},
		{header: "NODES", wide: true, value: func(j job) string { return strings.Join(j.Nodes, ",") }},
		{header: "REASON", wide: true, value: func(j job) string { return englishReason(j.Trouble) }, localized: func(j job, language phrase.Language) string {
			return localizeReason(j.Trouble, language)
		}},
		{header: "NODE / REASON", narrow: true, spill: true, localized: placeOrReason, value: func(j job) string { return placeOrReason(j, phrase.English) }},
	}
	if namespaces {
		columns = slices.Insert(columns, 0, column[job]{header: "NAMESPACE", elastic: true, value: func(j job) string { return j.Namespace }})
	}
	return columns
}

// runDuration returns how long a job has run since its first pod started, or "" if no pod has started.
func runDuration(j inventory.Job, now time.Time) string {
	switch {
	case j.Started == nil:
		return ""
	case j.Finished != nil:
		return formatAge(*j.Finished, *j.Started)
	case now.IsZero():
		return ""
	}
	return formatAge(now, *j.Started)
}

func gpuTypesOf(j inventory.Job) string {
	if len(j.MIG) > 0 {
		return migTypeNames(j.MIG, j.GPUTypes)
	}
	if j.GPUs == 0 {
		return strings.Join(j.GPUTypes, ",")
	}
	return gpuTypeNames(j.GPUTypes)
}

// migTypeNames lists the MIG slices that each pod of a job requests, and the accepted GPU types.
func migTypeNames(mig []inventory.AskedProfile, types []string) string {
	slices := make([]string, len(mig))
	for i, asked := range mig {
		slices[i] = asked.String()
	}
	return strings.Join(append(slices, types...), ",")
}

// gpuTypeNames lists the GPU types that a job accepts.
func gpuTypeNames(types []string) string {
	if len(types) == 0 {
		return markWord("any")
	}
	return strings.Join(types, ",")
}

// firstGPUType returns the preferred GPU type of a job, and the number of other accepted types.
func firstGPUType(j inventory.Job) string {
	if len(j.GPUTypes) < 2 || len(j.MIG) > 0 {
		return gpuTypesOf(j)
	}
	return fmt.Sprintf("%s +%d", j.GPUTypes[0], len(j.GPUTypes)-1)
}

func placeOrReason(j inventory.Job, language phrase.Language) string {
	text := shortNodes(j)
	if j.Reason != "" {
		text = localizeReason(j.Trouble, language)
	}
	if j.Array != nil { // the array's progress must stay visible in the row if the rest does not fit
		text = strings.TrimSuffix(j.Array.ProgressText().Localize(language)+": "+text, ": ")
	}
	return text
}

func shortNodes(j inventory.Job) string {
	if len(j.Nodes) > 1 {
		return fmt.Sprintf("%s +%d", j.Nodes[0], len(j.Nodes)-1)
	}
	return strings.Join(j.Nodes, "")
}

// englishReason formats a trouble on one line: the reason, and the short form of the scheduler's message.
func englishReason(t inventory.Trouble) string { return localizeReason(t, phrase.English) }

// reasonText is [englishReason] as a [phrase.Text], for use within another text.
func reasonText(t inventory.Trouble) phrase.Text {
	if t.Message == "" {
		return phrase.Quote(t.Reason)
	}
	return phrase.Textf("%s: %s", cmp.Or(t.Reason, "Unknown"), phrase.FromEnglish(t.Message))
}

// localizeReason is [englishReason] in a language. The reason and texts of others are not translated.
func localizeReason(t inventory.Trouble, language phrase.Language) string {
	if t.Message == "" {
		return t.Reason
	}
	return cmp.Or(t.Reason, "Unknown") + ": " + localizeMessage(t.Message, language)
}

// localizeMessage localizes the message of a trouble: a text of ours, or what the scheduler says about the pod as a whole.
func localizeMessage(message string, language phrase.Language) string {
	words := language.TranslateMessage(message)
	if words != message || language != phrase.Chinese {
		return words
	}
	for _, found := range reason.FindIn(message, slices.Concat(reason.RefusalReasons, reason.PodReasons, reason.GangReasons, reason.PlainNodeReasons)) {
		if found.Nodes == 0 && found.Message != "" {
			return found.FillText(found.Message, "").Localize(language)
		}
	}
	return message // the message is about individual nodes: gpuctl why explains it
}

// localizeMessages localizes messages.
func localizeMessages(messages []string, language phrase.Language) []string {
	out := make([]string, len(messages))
	for i, message := range messages {
		out[i] = language.TranslateMessage(message)
	}
	return out
}

func statusColor(j inventory.Job) string {
	switch j.Status {
	case inventory.StatusRunning, inventory.StatusSucceeded:
		return colorGreen
	case inventory.StatusFailed, inventory.StatusFailing:
		return colorRed
	}
	return colorYellow
}
