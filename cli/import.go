package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/slurm"
)

type importOptions struct {
	factory  *Factory
	io       IOStreams
	options  slurm.Options
	gpuTypes []string
}

func newImportCmd(f *Factory) *cobra.Command {
	o := &importOptions{factory: f, io: f.IO}
	cmd := &cobra.Command{
		Use:   "import SCRIPT",
		Short: "Turn a batch script of Slurm into a job",
		Long: "Turn a batch script of Slurm into the YAML of a job, which is printed. What its #SBATCH lines ask for becomes\n" +
			"fields; what has no counterpart is told, line by line. The script itself stays as it is: it runs under a few\n" +
			"lines of shell that stand in for srun, scontrol show hostnames and Slurm's variables.\n\n" +
			"The partition becomes the pool, unless --pool says which one. A script that names no container image runs in\n" +
			"that of --image, or of gpuctl config.",
		Example: "  gpuctl import train.sbatch --image pytorch/pytorch:2.8.0 > train.yaml\n" +
			"  gpuctl import train.sbatch --pool training-pool --gpu-type a100=A100-80G | gpuctl create -f -",
		Args: requireOneArg(phrase.Textf("one batch script, or - for standard input")),
		RunE: func(_ *cobra.Command, args []string) error { return runImport(o, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.options.Image, "image", "", "The container image, where the script names none (default: image of gpuctl config)")
	flags.StringVar(&o.options.Pool, "pool", "", "The pool, in place of the script's partition")
	flags.StringArrayVar(&o.gpuTypes, "gpu-type", nil, "What your nodes call a type of GPU of Slurm's: SLURM=OURS, such as a100=A100-80G; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	return cmd
}

func runImport(o *importOptions, file string) error {
	script, err := readFile(o.io.In, file)
	if err != nil {
		return err
	}
	if err := o.completeOptions(file); err != nil {
		return err
	}
	result, err := slurm.Convert(string(script), o.options)
	if err != nil {
		return usageErrorf("%s: %w", displayName(file), err)
	}
	for _, note := range result.Notes {
		at := displayName(file)
		if note.Line > 0 {
			at += fmt.Sprintf(":%d", note.Line)
		}
		o.io.printErr("%s: note: %s", at, note.Message)
	}
	if _, err := o.factory.parseWritten(result.YAML, true); err != nil {
		return err
	}
	_, err = fmt.Fprint(o.io.Out, result.YAML)
	return err
}

// completeOptions fills options that the script may not specify from the flags and the user's configuration.
func (o *importOptions) completeOptions(file string) error {
	o.options.Name = displayName(file)
	o.options.GPUTypes = map[string]string{}
	for _, pair := range o.gpuTypes {
		theirs, ours, ok := strings.Cut(pair, "=")
		if !ok || theirs == "" || ours == "" {
			return usageErrorf("--gpu-type %s: write SLURM=OURS, such as a100=A100-80G", pair)
		}
		o.options.GPUTypes[theirs] = ours
	}
	if o.options.Image != "" {
		return nil
	}
	config, err := readUserConfig()
	o.options.Image = config.Image
	return err
}
