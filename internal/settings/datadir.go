package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// DataDirFile is the file of a data directory that holds its id.
const DataDirFile = "id"

// DataDirID reads the id of a data directory; empty if no worker has used it yet.
func DataDirID(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, DataDirFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("data directory %s (%s): %w", dir, DataDir, err)
	}
	return string(b), nil
}
