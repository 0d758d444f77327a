package cli

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/rand"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/workload"
)

type runOptions struct {
	createOptions
	// name is the name of the job; if empty, it is derived from the program.
	name string
	// values are the values of flags, by flag name.
	values map[string]*string
	env    []string
	// stdin connects standard input to the program, and tty a terminal. Either of them makes it a session.
	stdin, tty bool
	// notebook and service make it a job of another kind than training.
	notebook, service bool
	// secrets are variables with the values of secrets, and volumes what is mounted.
	secrets, volumes []string
	// printOnly prints the YAML, and creates nothing.
	printOnly bool
}

// runFlags are the flags that set one field of the job, in the order of the YAML.
var runFlags = []struct {
	name, short, field, usage string
	// list says that commas separate several values.
	list bool
}{
	{name: "priority", field: "job.priority", usage: "high, medium or low"},
	{name: "ttl", field: "job.ttl", usage: "How long the job is kept after it ended, such as 7d"},
	{name: "depends-on", field: "job.depends-on", list: true, usage: "The jobs to start after; several with commas"},
	{name: "after", field: "job.after", usage: "How these have to end: ok (the default), or any"},
	{name: "array", field: "job.array", usage: "Run the command once for each of a range of tasks: 0-99, or 0-99%10 for ten at once; its number is in $JOB_COMPLETION_INDEX"},
	{name: "retries", field: "job.retries", usage: "How often the program is started again after it failed"},
	{name: "workdir", field: "job.workdir", usage: workdirUsage},
	{name: "notify", field: "job.notify.channel", usage: "The channel to tell how the job ended, or CHANNEL:failed,evicted to be told of these; administrators set channels up"},
	{name: "image", field: "environment.image", usage: "The container image (default: image of gpuctl config)"},
	{name: "preset", field: "resources.preset", usage: "What administrators have prepared for the resources; see gpuctl get presets (default: preset of gpuctl config, if the line names neither pool nor GPUs)"},
	{name: "pool", field: "resources.pool", usage: "The pool of nodes to run in; see gpuctl get pools (default: pool of gpuctl config)"},
	{name: "gpu", short: "g", field: "resources.gpu", usage: "The number of GPUs of each node, or TYPE:NUMBER such as A100-80G:2; a TYPE alone is one GPU"},
	{name: "gpu-type", field: "resources.gpu-type", list: true, usage: "The model of GPU; several with commas, the preferred one first"},
	{name: "nodes", field: "resources.nodes", usage: "The number of nodes to run on at once"},
	{name: "cpu", field: "resources.cpu", usage: "CPU cores, of each node"},
	{name: "memory", field: "resources.memory", usage: "Memory of each node, such as 64Gi"},
	{name: "shm", field: "resources.shm", usage: "The size of /dev/shm"},
	{name: "image-pull-secret", field: "environment.image-pull-secret", usage: "The secret with the login of the image's registry; see gpuctl secret"},
	{name: "port", field: "service.port", usage: "The port that a notebook or service serves (default: 8888 of a notebook, 8000 of a service)"},
	{name: "time-limit", field: "resources.time-limit", usage: "How long the job may run, such as 4h"},
}

func newRunCmd(f *Factory) *cobra.Command {
	o := &runOptions{values: map[string]*string{}}
	o.createOptions = createOptions{manifests: manifests{factory: f}, dryRun: dryRunNone, output: newOutput("", outputYAML, outputJSON, outputName)}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG]...",
		Short: "Run a command on GPUs, a shell, a notebook or a service, without a file",
		Long: "Run a command on GPUs, without a file: a training job is created of what the flags say. All that follows\n" +
			"the command is the command's. One word with blanks in it is run by a shell.\n\n" +
			"With --notebook it is a notebook, and with --service a service that others reach by --port; both run until\n" +
			"they are deleted, and run the program of their image where no command is given. --secret gives the program a\n" +
			"value of a secret, and --volume a volume: see gpuctl secret and gpuctl volume.\n\n" +
			"With -it it is a shell on GPUs, or another program with a terminal, that ends with you: gpuctl waits for the\n" +
			"GPUs, connects you, and deletes the job when the program ends or when you end the waiting by Ctrl-C. The exit\n" +
			"code is that of the program. If the connection is lost, the job goes on: gpuctl attach comes back to it.\n\n" +
			"The job is called what --name says, else as its program, with five random characters. --dry-run prints its\n" +
			"YAML: a file for gpuctl create -f to begin from.",
		Example: "  gpuctl run --image pytorch/pytorch:2.8.0 --gpu A100-80G:2 python train.py --lr 3e-4\n" +
			"  gpuctl run --image pytorch/pytorch:2.8.0 --gpu 8 --nodes 4 --attach -- torchrun train.py\n" +
			"  gpuctl run --image pytorch/pytorch:2.8.0 --gpu 1 --time-limit 8h -it\n" +
			"  gpuctl run --image pytorch/pytorch:2.8.0 --gpu 1 --workdir . python train.py\n" +
			"  gpuctl run --image busybox 'date; sleep 60; date'\n" +
			"  gpuctl run --notebook --image jupyter/pytorch-notebook --gpu 1 --volume data:/data\n" +
			"  gpuctl run --service --port 8000 --image vllm/vllm-openai --gpu 1 -- vllm serve qwen\n" +
			"  gpuctl run --image i --gpu 1 --dry-run python train.py > train.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.isSession() && o.kind() == workload.KindTraining {
				return usageErrorf("%s needs the command to run, or -it for a shell\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runRun(cmd, o, args) },
	}
	o.addFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	_ = cmd.RegisterFlagCompletionFunc("preset", completePresets(f))
	_ = cmd.RegisterFlagCompletionFunc("gpu", completeCounts(f))
	_ = cmd.RegisterFlagCompletionFunc("gpu-type", completeTypes(f))
	_ = cmd.RegisterFlagCompletionFunc("set", completeAssignments("", workload.KindTraining, workload.KindNotebook, workload.KindInference))
	_ = cmd.RegisterFlagCompletionFunc("image-pull-secret", completeSecrets(f))
	_ = cmd.RegisterFlagCompletionFunc("volume", completeVolumes(f))
	_ = cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions(priorityNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *runOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&o.name, "name", "", "The name of the job (default: as its program, with five random characters)")
	for _, flag := range runFlags {
		value := new(string)
		flags.StringVarP(value, flag.name, flag.short, "", flag.usage)
		o.values[flag.name] = value
	}
	flags.StringArrayVar(&o.env, "env", nil, "An environment variable: NAME=VALUE; may be repeated")
	flags.StringArrayVar(&o.secrets, "secret", nil, "An environment variable with a value of a secret: VARIABLE=SECRET/KEY; may be repeated")
	flags.StringArrayVar(&o.volumes, "volume", nil, "Mount a volume: VOLUME:PATH, or VOLUME:PATH:ro to read only; may be repeated")
	flags.BoolVar(&o.notebook, "notebook", false, "Run a notebook, until it is deleted; gpuctl open NAME shows it")
	flags.BoolVar(&o.service, "service", false, "Run a service, until it is deleted, that others reach by --port")
	flags.StringArrayVar(&o.overrides.Set, "set", nil, "Set any other field of the job: FIELD=VALUE, see gpuctl explain training; may be repeated")
	flags.BoolVarP(&o.stdin, "stdin", "i", false, "Stay connected to the program: standard input goes to it, and the job ends with it")
	flags.BoolVarP(&o.tty, "tty", "t", false, "Give the program a terminal, yours; it is a shell unless a command is given")
	flags.BoolVar(&o.printOnly, "dry-run", false, "Print the job's YAML, and create nothing")
	flags.BoolVar(&o.requireFit, "require-fit", false, "Refuse a job that no node could ever hold, with exit code 7, or that a quota or a policy never lets in")
	o.output.addTo(cmd)
	o.afterCreate.addFlags(flags)
}

func runRun(cmd *cobra.Command, o *runOptions, command []string) error {
	if err := o.checkSession(); err != nil {
		return err
	}
	if err := o.checkKind(cmd); err != nil {
		return err
	}
	source, err := o.buildSource(cmd, command)
	if err != nil {
		return err
	}
	doc, err := o.factory.parseWritten(source, true)
	if err != nil {
		return err
	}
	o.workdir = *o.values["workdir"]
	if o.printOnly {
		o.offline, o.unsent = true, true
		if _, err := o.packFolders(cmd.Context(), []submission{doc}); err != nil {
			return err
		}
		_, err := fmt.Fprint(o.factory.IO.Out, doc.Source)
		return err
	}
	if o.isSession() {
		return o.runSession(cmd.Context(), doc)
	}
	return o.submitJob(cmd.Context(), doc)
}

// isSession reports whether the user stays connected to the job, which ends with the session.
func (o *runOptions) isSession() bool { return o.stdin || o.tty }

// checkSession refuses flags that contradict -i or -t.
func (o *runOptions) checkSession() error {
	switch {
	case !o.isSession() || o.printOnly:
		return nil
	case o.afterCreate.wait || o.afterCreate.attach:
		return usageErrorf("-i stays with the job from its start to its end: leave out --wait and --attach")
	case o.output.format != "":
		return usageErrorf("-i prints what the program prints: leave out -o")
	case o.tty && !o.factory.IO.InIsTerminal:
		return usageErrorf("standard input is no terminal: leave out -t")
	}
	return nil
}

func (o *runOptions) submitJob(ctx context.Context, doc submission) error {
	creations, err := o.renderDocuments(ctx, []submission{doc})
	if err != nil {
		return err
	}
	return o.executeCreate(ctx, creations)
}

// setFields sets the fields that flags name, and the program after its image.
func (o *runOptions) setFields(cmd *cobra.Command, source string, command []string) (_ string, err error) {
	for _, flag := range runFlags {
		value := *o.values[flag.name]
		if value == "" && !cmd.Flags().Changed(flag.name) {
			continue
		}
		if source, err = jobplan.SetField(source, flag.field, flagValue(value, flag.list)); err != nil {
			return "", err
		}
		if flag.name != "image" {
			continue
		}
		if source, err = o.setProgram(source, command); err != nil {
			return "", err
		}
	}
	return source, nil
}

// buildSource builds the YAML of the job from the flags and the command.
func (o *runOptions) buildSource(cmd *cobra.Command, command []string) (string, error) {
	base := programJobName(command)
	if len(command) == 0 && !o.isSession() {
		base = string(o.kind())
	}
	name := cmp.Or(o.name, base+"-"+rand.String(len(workload.PlaceholderSuffix)))
	source, err := jobplan.SetField("kind: "+string(o.kind())+"\n", "job.name", name)
	if err != nil {
		return "", err
	}
	image, err := o.imageName()
	if err != nil {
		return "", err
	}
	*o.values["image"] = image
	if err := o.fillDefaults(cmd); err != nil {
		return "", err
	}
	if err := o.splitGPU(); err != nil {
		return "", err
	}
	channel, on, chosen := strings.Cut(*o.values["notify"], ":")
	*o.values["notify"] = channel
	if retries := o.values["retries"]; o.isSession() && !cmd.Flags().Changed("retries") {
		*retries = "0" // a shell that exits with an error has ended
	}
	if source, err = o.setFields(cmd, source, command); err != nil {
		return "", err
	}
	if chosen {
		if source, err = jobplan.SetField(source, "job.notify.when", flagValue(on, true)); err != nil {
			return "", err
		}
	}
	if source, err = o.addAttachments(source); err != nil {
		return "", err
	}
	source, err = jobplan.Overrides{Set: o.overrides.Set, Env: o.env}.Apply(o.kind(), source)
	if err != nil {
		return "", usageErrorf("%w", err)
	}
	return source, nil
}

// setProgram adds the program to the YAML, and the fields that connect it to the user.
func (o *runOptions) setProgram(source string, command []string) (string, error) {
	switch {
	case len(command) == 0 && o.kind() != workload.KindTraining:
		return source, nil // the image's own
	case len(command) == 0:
		command = shellCommand()
	case len(command) == 1 && strings.ContainsAny(command[0], " \t\n"):
		command = []string{"sh", "-c", command[0]}
	}
	source, err := jobplan.SetField(source, "environment.command", jobplan.EscapeDollars(command))
	if err == nil && o.isSession() {
		source, err = jobplan.SetField(source, "environment.stdin", true)
	}
	if err == nil && o.tty {
		source, err = jobplan.SetField(source, "environment.tty", true)
	}
	return source, err
}

// imageName returns the image of the flag, else that of the user's configuration.
func (o *runOptions) imageName() (string, error) {
	if image := *o.values["image"]; image != "" {
		return image, nil
	}
	config, err := readUserConfig()
	if err != nil {
		return "", err
	}
	if config.Image == "" {
		return "", usageErrorf("which image? Give one with --image, or once for all with: gpuctl config set image IMAGE")
	}
	return config.Image, nil
}

// flagValue converts a flag's text to a YAML value: a number becomes a number, so that it needs no quotes.
func flagValue(value string, list bool) any {
	if list && strings.Contains(value, ",") {
		return strings.Split(value, ",")
	}
	var number int64
	if _, err := fmt.Sscanf(value, "%d", &number); err == nil && fmt.Sprint(number) == value {
		return number
	}
	return value
}

// maxBaseName leaves room for the suffix, and for what the pod names of a gang append.
const maxBaseName = 40

// programJobName derives a job's name from its command: the first script, else the program; without a command, shell.
func programJobName(command []string) string {
	if len(command) == 0 {
		return "shell"
	}
	program := strings.Fields(command[0] + " ")
	if len(program) == 0 {
		return "job"
	}
	words := slices.Concat(program[:1], command[1:])
	at := slices.IndexFunc(words, func(word string) bool {
		return slices.Contains([]string{".py", ".sh"}, path.Ext(word))
	})
	word := path.Base(words[max(at, 0)])
	word = strings.TrimSuffix(word, path.Ext(word))
	var out strings.Builder
	for _, r := range strings.ToLower(word) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			out.WriteRune(r)
		default:
			out.WriteByte('-')
		}
	}
	name := out.String()
	name = strings.Trim(name[:min(len(name), maxBaseName)], "-")
	if name == "" || name[0] < 'a' {
		return strings.TrimSuffix("job-"+name, "-")
	}
	return name
}
