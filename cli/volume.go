package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

func newVolumeCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "volume {create | get | delete}",
		Short: "Keep data for jobs in volumes that outlive them",
		Long: "Keep data for jobs in volumes that outlive them. A job mounts one by its name: storage.workdirs[].pvc in its\n" +
			"YAML, or --volume of gpuctl run. To Kubernetes a volume is a PersistentVolumeClaim.",
		Example: "  gpuctl volume create data --size 100Gi\n" +
			"  gpuctl run --image i --gpu 1 --volume data:/data python train.py",
		Args: cobra.ArbitraryArgs,
		RunE: needCommand,
	}
	cmd.AddCommand(newVolumeCreateCmd(f), newVolumeGetCmd(f), newVolumeDeleteCmd(f))
	return cmd
}

type volumeCreateOptions struct {
	changes
	factory *Factory
	size    string
	request submit.VolumeRequest
}

func newVolumeCreateCmd(f *Factory) *cobra.Command {
	o := &volumeCreateOptions{factory: f}
	o.io, o.output = f.IO, newChangeOutput()
	cmd := &cobra.Command{
		Use:   "create NAME --size SIZE",
		Short: "Create a volume",
		Long: "Create a volume. It gets its storage when it is there, or when the first job mounts it, as its class has it.\n" +
			"Jobs on several nodes need one that is --shared, which not every class can be.",
		Example: "  gpuctl volume create data --size 100Gi\n  gpuctl volume create checkpoints --size 1Ti --class cephfs --shared",
		Args:    requireOneArg(phrase.Textf("the name of the volume")),
		RunE:    func(cmd *cobra.Command, args []string) error { return runVolumeCreate(cmd, o, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.size, "size", "", "How much it holds, such as 100Gi; required")
	flags.StringVar(&o.request.Class, "class", "", "The storage class (default: the cluster's)")
	flags.BoolVar(&o.request.Shared, "shared", false, "Let pods on several nodes mount it at once")
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

func runVolumeCreate(cmd *cobra.Command, o *volumeCreateOptions, name string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	if err := checkObjectName(name); err != nil {
		return err
	}
	size, err := resource.ParseQuantity(o.size)
	if err != nil || size.Sign() <= 0 {
		return usageErrorf("--size %q is no size: write a number with its unit, such as 100Gi", o.size)
	}
	return o.applyInNamespace(cmd.Context(), o.factory, func(ctx context.Context, writer *submit.Client, namespace string) (submit.Result, error) {
		o.request.Namespace, o.request.Name, o.request.Size = namespace, name, size
		return writer.CreateVolume(ctx, o.request, o.dryRun == dryRunServer)
	})
}

func newVolumeGetCmd(f *Factory) *cobra.Command {
	o := &listing[submit.Volume]{}
	cmd := &cobra.Command{
		Use:     "get [NAME]...",
		Aliases: []string{"list", "ls"},
		Short:   "List volumes, and which pods use them",
		Long: "List the volumes of the namespace, and which pods use them. One that JOB names was made with that job, and\n" +
			"goes with it.",
		Example: "  gpuctl volume get\n  gpuctl volume get data -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			namespace, err := f.currentNamespace()
			if err != nil {
				return err
			}
			writer, err := f.newWriter()
			if err != nil {
				return err
			}
			volumes, err := writer.Volumes(cmd.Context(), namespace)
			if err != nil {
				return err
			}
			return o.printNamed(volumes)
		},
		ValidArgsFunction: completeVolumes(f),
	}
	*o = listing[submit.Volume]{
		io: f.IO, now: f.Now, noun: "volume",
		columns: volumeColumns,
		name:    func(v submit.Volume) string { return v.Name },
		id:      func(v submit.Volume) string { return v.Name },
		print:   func(v submit.Volume) string { return submit.KindVolume + "/" + v.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

func volumeColumns(now time.Time) []column[submit.Volume] {
	return []column[submit.Volume]{
		{header: "NAME", value: func(v submit.Volume) string { return v.Name }},
		{header: "SIZE", value: func(v submit.Volume) string { return v.Size }},
		{header: "CLASS", value: func(v submit.Volume) string { return v.Class }},
		{header: "SHARED", text: func(v submit.Volume) phrase.Text {
			if v.Shared {
				return phrase.Textf("yes")
			}
			return phrase.Textf("no")
		}},
		{header: "STATUS", value: func(v submit.Volume) string { return v.Status }},
		{header: "JOB", value: func(v submit.Volume) string { return v.Job }},
		{header: "USED BY", value: func(v submit.Volume) string { return strings.Join(v.UsedBy, ",") }},
		{header: "AGE", value: func(v submit.Volume) string { return formatAge(now, v.Created) }},
	}
}

func completeVolumes(f *Factory) completer {
	return completeOwnNames(f, func(ctx context.Context, c *submit.Client, namespace string) ([]string, error) {
		volumes, err := c.Volumes(ctx, namespace)
		names := make([]string, len(volumes))
		for i := range volumes {
			names[i] = volumes[i].Name
		}
		return names, err
	})
}

func newVolumeDeleteCmd(f *Factory) *cobra.Command {
	o := &namedDeletion{
		factory: f,
		danger: func(names []string) phrase.Text {
			return phrase.Textf("All data in volumes %s is lost", strings.Join(names, ", "))
		},
		deletes: func(ctx context.Context, c *submit.Client, namespace, name string, dryRun bool) (submit.Result, error) {
			return c.DeleteVolume(ctx, namespace, name, dryRun)
		},
	}
	cmd := o.addFlagsTo(&cobra.Command{
		Use:               "delete NAME...",
		Aliases:           []string{"rm"},
		Short:             "Delete volumes that gpuctl made, and their data",
		Long:              "Delete volumes that gpuctl made, and their data. One that a pod still uses goes when that has ended.",
		Example:           "  gpuctl volume delete data",
		RunE:              o.run,
		ValidArgsFunction: completeVolumes(f),
	})
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation")
	return cmd
}
