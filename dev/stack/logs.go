package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	temporalLogName = "temporal.log"
	kafkaLogName    = "kafka.log"
	// maxLogBytes is the size above which a start puts a log file aside.
	maxLogBytes = 16 << 20
)

// logFiles of the servers, warnings and errors only. At most one older file of
// each is kept.
type logFiles struct {
	temporal, kafka *os.File
}

func openLogs(d *dataDir) (*logFiles, error) {
	temporal, err := openLog(filepath.Join(d.path, temporalLogName))
	if err != nil {
		return nil, err
	}
	kafka, err := openLog(filepath.Join(d.path, kafkaLogName))
	if err != nil {
		return nil, errors.Join(err, temporal.Close())
	}
	return &logFiles{temporal, kafka}, nil
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("put the old log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

func (l *logFiles) close() error { return errors.Join(l.temporal.Close(), l.kafka.Close()) }
