package cli

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

const (
	groupJobs    = "jobs"
	groupCluster = "cluster"
	groupFiles   = "files"
)

// newRootCmd returns the root command with all commands.
func newRootCmd(f *Factory, name string) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpuctl",
		Short: "Run jobs on the GPUs of a Kubernetes cluster",
		Long: "gpuctl runs jobs on the GPUs of a Kubernetes cluster. A job is a few lines of YAML: what to run, on how\n" +
			"many GPUs, of which type, in which pool.\n\n" + exitCodeHelp,
		Example: "  gpuctl run --image i --gpu 1 -- python train.py\n" +
			"  gpuctl create -f train.yaml      # submit what the file says\n" +
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
		newRunCmd(f),
		newCreateCmd(f),
		newApplyCmd(f),
		newDiffCmd(f),
		newDeleteCmd(f),
		newPauseCmd(f),
		newResumeCmd(f),
		newCancelCmd(f),
		newRetryCmd(f),
		newSetCmd(f),
		newScaleCmd(f),
		newEditCmd(f),
		newMoveCmd(f),
		newExportCmd(f),
		newLogsCmd(f),
		newEventsCmd(f),
		newWhyCmd(f),
		newSimulateCmd(f),
		newWaitCmd(f),
		newExecCmd(f),
		newShellCmd(f),
		newAttachCmd(f),
		newPortForwardCmd(f),
		newOpenCmd(f),
		newCpCmd(f),
		newSecretCmd(f),
		newVolumeCmd(f))
	add(groupCluster,
		newGetCmd(f),
		newDescribeCmd(f),
		newAddCmd(f),
		newRemoveCmd(f),
		newPoolCmd(f),
		newDrainCmd(f),
		newRecoverCmd(f),
		newLabelCmd(f),
		newQueueCmd(f),
		newUICmd(f),
		newTopCmd(f),
		newUsageCmd(f),
		newAdviseCmd(f),
		newDoctorCmd(f),
		newSupportBundleCmd(f))
	add(groupFiles, newValidateCmd(f), newRenderCmd(f), newInitCmd(f), newImportCmd(f), newExplainCmd(f), newSchemaCmd(f))
	root.AddCommand(newConfigCmd(f), newVersionCmd(f), newCompletionCmd(f))
	root.SetHelpCommand(newHelpCmd())
	wrapHelp(root)
	translateHelp(f, root)
	for _, command := range root.Commands() {
		renameExamples(command, name)
	}
	renameExamples(root, name)
	return root
}

// renameExamples makes the examples use the name that the user typed.
func renameExamples(command *cobra.Command, name string) {
	if name == "gpuctl" {
		return
	}
	command.Example = strings.ReplaceAll(command.Example, "gpuctl ", name+" ")
	for _, sub := range command.Commands() {
		renameExamples(sub, name)
	}
}

// needCommand is the action of a command that only groups others: it shows help, or reports a misspelt subcommand.
func needCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		if err := cmd.Help(); err != nil {
			return err
		}
		if cmd.HasParent() {
			return &quietError{usageErrorf("%s needs to know what", cmd.CommandPath())}
		}
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// foreignCommands maps command names of other programs to ours.
var foreignCommands = map[string]string{
	"list": "get jobs", "ls": "get jobs", "ps": "get jobs", "jobs": "get jobs", "nodes": "get nodes", "pools": "get pools",
	"status": "describe JOB", "show": "describe JOB", "info": "describe JOB", "history": "get jobs", "watch": "get jobs -w",
	"submit": "create -f FILE",
	"stop":   "pause JOB, or cancel JOB", "kill": "cancel JOB", "rm": "delete JOB",
	"ssh": "shell JOB", "tail": "logs JOB -f", "log": "logs JOB", "nvidia-smi": "top gpus",
	"srun": "run", "sbatch": "run, or import SCRIPT", "salloc": "run -it", "squeue": "queue", "sinfo": "get nodes", "scancel": "cancel JOB",
	"sacct": "get jobs", "sview": "ui", "smap": "ui", "k9s": "ui", "sattach": "attach JOB", "scontrol": "describe JOB, pause JOB or resume JOB",
}

func unknownCommand(cmd *cobra.Command, word string) error {
	if cmd.Name() == "get" && slices.Contains([]string{"pod", "pods", "po"}, word) {
		return usageErrorf("pods are listed by job: %s jobs --pods", cmd.CommandPath())
	}
	if cmd.Name() == "describe" && slices.Contains([]string{"preset", "presets"}, word) {
		return usageErrorf("a preset is shown by: %s get preset NAME -o yaml", cmd.Root().Name())
	}
	if other := foreignCommands[word]; other != "" && !cmd.HasParent() {
		return usageErrorf("unknown command %q: use %s %s\nSee '%s --help'", cmd.CommandPath()+" "+word, cmd.CommandPath(), other, cmd.CommandPath())
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(append(known, sub.Name()), sub.Aliases...)
		}
	}
	near := spelling.DidYouMean(word, known)
	if cmd.Name() == "get" && len(near) == 0 {
		near = phrase.Textf("\nIf it is a job: %s job %s", cmd.CommandPath(), word)
	}
	return usageErrorf("unknown command %q%s\nSee '%s --help'", cmd.CommandPath()+" "+word, near, cmd.CommandPath())
}

// newHelpCmd is cobra's help command, except that an unknown topic is an error.
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
	// A misspelt command does not have the flags that follow it. After describe, the word may be a job name.
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 && cmd.Name() != "describe" {
		return unknownCommand(cmd, words[0])
	}
	return usageErrorf("%s\nSee '%s --help'", wrongFlag(cmd, err), cmd.CommandPath())
}

// wrongFlag says what is wrong with a flag. The flag parser's own messages exist only in English.
func wrongFlag(cmd *cobra.Command, err error) phrase.Text {
	var unknown *pflag.NotExistError
	var lacking *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := "--" + unknown.GetSpecifiedName()
		return phrase.Textf("unknown flag: %s", name).Add(spelling.DidYouMean(name, flagNames(cmd)))
	case errors.As(err, &unknown):
		letter, _ := utf8.DecodeRuneInString(unknown.GetSpecifiedName())
		return phrase.Textf("unknown shorthand flag: %q in -%s", letter, unknown.GetSpecifiedShortnames())
	case errors.As(err, &lacking) && lacking.GetSpecifiedShortnames() == "":
		return phrase.Textf("flag needs an argument: --%s", lacking.GetSpecifiedName())
	case errors.As(err, &invalid):
		return phrase.Textf("invalid argument %q for %q flag: %s", invalid.GetValue(), flagLabel(invalid.GetFlag()), errors.Unwrap(invalid))
	}
	return phrase.FromError(err)
}

// flagLabel formats a flag with its short name.
func flagLabel(flag *pflag.Flag) string {
	if flag.Shorthand != "" && flag.ShorthandDeprecated == "" {
		return "-" + flag.Shorthand + ", --" + flag.Name
	}
	return "--" + flag.Name
}

func flagNames(cmd *cobra.Command) []string {
	var out []string
	collect := func(flag *pflag.Flag) { out = append(out, "--"+flag.Name) }
	cmd.NonInheritedFlags().VisitAll(collect)
	cmd.InheritedFlags().VisitAll(collect)
	return out
}

// CommandPaths returns all commands that are not just groups, as a user types them after "gpuctl": "get jobs". Tests and the reference pages use
// them.
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
