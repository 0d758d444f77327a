package cli

import "fmt"

// failures are the errors of a command that does several things, one of which does not keep the others back.
type failures struct {
	io   IOStreams
	errs []error
}

// add notes an error, nil for none. It returns whether there is no point in going on: the cluster does not answer, or
// the user has interrupted.
func (f *failures) add(err error) (stop bool) {
	if err == nil {
		return false
	}
	f.errs = append(f.errs, err)
	code := exitCode(err)
	return code == exitUnreachable || code == exitInterrupted
}

func (f *failures) none() bool { return len(f.errs) == 0 }

// err returns the error that decides the exit code, the first one. Several are printed here, each in full.
func (f *failures) err() error {
	switch len(f.errs) {
	case 0:
		return nil
	case 1:
		return f.errs[0]
	}
	for _, err := range f.errs {
		fmt.Fprintln(f.io.ErrOut, "error: "+message(err))
	}
	return &quietError{f.errs[0]}
}
