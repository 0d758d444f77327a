package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/spelling"
)

const (
	groupJobs    = "jobs"
	groupCluster = "cluster"
	groupFiles   = "files"
)

// newRootCmd is the list of commands.
func newRootCmd(f *Factory, name string) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpuctl",
		Short: "Run jobs on the GPUs of a Kubernetes cluster",
		Long: "gpuctl runs jobs on the GPUs of a Kubernetes cluster. A job is a few lines of YAML: what to run, on how\n" +
			"many GPUs, of which type, in which pool.\n\n" + exitCodeHelp,
		Example: "  gpuctl create -f train.yaml      # submit what the file says\n" +
			"  gpuctl get jobs                  # one line a job, with the reason when it does not run\n" +
			"  gpuctl why qwen2-sft             # why it does not run, and what to change\n" +
			"  gpuctl describe job qwen2-sft    # all about one job\n" +
			"  gpuctl logs qwen2-sft -f         # follow its output",
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE:              needCommand,
	}
	root.SetIn(f.IO.In)
	root.SetOut(f.IO.Out)
	root.SetErr(f.IO.ErrOut)
	root.SetFlagErrorFunc(flagError)
	f.bindFlags(root.PersistentFlags())
	completeFlags(f, root)
	root.AddGroup(
		&cobra.Group{ID: groupJobs, Title: "Jobs:"},
		&cobra.Group{ID: groupCluster, Title: "The cluster:"},
		&cobra.Group{ID: groupFiles, Title: "YAML files, without a cluster:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add(groupJobs,
		newCreateCmd(f),
		newApplyCmd(f),
		newDiffCmd(f),
		newDeleteCmd(f),
		newPauseCmd(f),
		newResumeCmd(f),
		newCancelCmd(f),
		newRetryCmd(f),
		newSetCmd(f),
		newMoveCmd(f),
		newExportCmd(f),
		newLogsCmd(f),
		newEventsCmd(f),
		newWhyCmd(f),
		newSimulateCmd(f),
		newWaitCmd(f),
		newExecCmd(f),
		newShellCmd(f),
		newPortForwardCmd(f),
		newOpenCmd(f),
		newCpCmd(f))
	add(groupCluster,
		newGetCmd(f),
		newDescribeCmd(f),
		newAddCmd(f),
		newRemoveCmd(f),
		newLabelCmd(f),
		newQueueCmd(f),
		newTopCmd(f),
		newAdviseCmd(f),
		newDoctorCmd(f))
	add(groupFiles, newValidateCmd(f), newRenderCmd(f), newInitCmd(f), newExplainCmd(f), newSchemaCmd(f))
	root.AddCommand(newVersionCmd(f), newCompletionCmd(f))
	root.SetHelpCommand(newHelpCmd())
	for _, command := range root.Commands() {
		rename(command, name)
	}
	rename(root, name)
	return root
}

// rename makes the examples say what the user types.
func rename(command *cobra.Command, name string) {
	if name == "gpuctl" {
		return
	}
	command.Example = strings.ReplaceAll(command.Example, "gpuctl ", name+" ")
	for _, sub := range command.Commands() {
		rename(sub, name)
	}
}

// needCommand is what a command that only groups others does: it shows its help, or says what was misspelt.
func needCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		if err := cmd.Help(); err != nil {
			return err
		}
		if cmd.HasParent() {
			return &quietError{usagef("%s needs to know what", cmd.CommandPath())}
		}
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// habits are what other programs call our commands.
var habits = map[string]string{
	"list": "get jobs", "ls": "get jobs", "ps": "get jobs", "submit": "create -f FILE", "run": "create -f FILE",
	"status": "describe JOB", "show": "describe JOB", "scale": "apply -f FILE, with another number of replicas in it",
	"stop": "pause JOB, or cancel JOB", "kill": "cancel JOB", "edit": "export JOB, then apply -f FILE",
}

func unknownCommand(cmd *cobra.Command, word string) error {
	if cmd.Name() == "get" && slices.Contains([]string{"pod", "pods", "po"}, word) {
		return usagef("pods are listed by job: %s jobs --pods", cmd.CommandPath())
	}
	if other := habits[word]; other != "" && !cmd.HasParent() {
		return usagef("unknown command %q: use %s %s\nSee '%s --help'", cmd.CommandPath()+" "+word, cmd.CommandPath(), other, cmd.CommandPath())
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(append(known, sub.Name()), sub.Aliases...)
		}
	}
	return usagef("unknown command %q%s\nSee '%s --help'", cmd.CommandPath()+" "+word, spelling.DidYouMean(word, known), cmd.CommandPath())
}

// newHelpCmd is cobra's, but that it is an error to ask about what is not there.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(found, rest[0])
			}
			return found.Help()
		},
	}
}

func flagError(cmd *cobra.Command, err error) error {
	// A misspelt command has none of the flags that follow it. A name of a job may follow describe.
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 && cmd.Name() != "describe" {
		return unknownCommand(cmd, words[0])
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: "); ok {
		text += spelling.DidYouMean(name, flagNames(cmd))
	}
	return usagef("%s\nSee '%s --help'", text, cmd.CommandPath())
}

func flagNames(cmd *cobra.Command) []string {
	var out []string
	collect := func(flag *pflag.Flag) { out = append(out, "--"+flag.Name) }
	cmd.NonInheritedFlags().VisitAll(collect)
	cmd.InheritedFlags().VisitAll(collect)
	return out
}

// CommandPaths returns all commands that do something themselves, as a user types them after "gpuctl": "get jobs".
// Tests and the reference pages go through them.
func CommandPaths() []string {
	var out []string
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		groups := cmd.HasAvailableSubCommands() // such a command shows its help
		if cmd.HasParent() && cmd.IsAvailableCommand() && !groups {
			_, path, _ := strings.Cut(cmd.CommandPath(), " ")
			out = append(out, path)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRootCmd(NewFactory(SystemStreams()), "gpuctl"))
	return out
}
