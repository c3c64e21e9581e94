"""How many model calls coalesced refresh saves against refreshing after each fact, and how many must wait in line."""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import numpy as np
import sqlalchemy as sa

from benchmarks.harness import BATCH, ENTITY_K, TENANT, Database, OneTree, Report, Row, database, parser, say
from benchmarks.memory_tree import MemoryTree
from memforest_core.adapters.postgres.engine import tenant_transaction
from memforest_core.adapters.postgres.flushing import PostgresFlushStore
from memforest_core.adapters.postgres.refresh import PostgresRefreshStore
from memforest_core.contexts.refresh.service import RefreshService
from memforest_core.domain.facts import Fact
from memforest_core.domain.ids import NodeId, WorkerId
from memforest_core.ports.models import CallRecord, Embedded, Step
from memforest_core.ports.refresh import ReadyNode, RefreshStore, SummarySource
from memforest_core.settings import RefreshSettings
